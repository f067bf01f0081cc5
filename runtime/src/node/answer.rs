//! The one answer that an operation in flight gives to the driver. Who waits for it does not belong here.

use holdfast_core::node::Input;
use tokio::sync::mpsc;

/// The one answer of an operation. Should its task die, the drop answers in its stead.
pub(super) struct Answer {
    to: mpsc::UnboundedSender<Input>,
    if_lost: Option<Input>,
}

impl Answer {
    pub(super) fn new(to: &mpsc::UnboundedSender<Input>, if_lost: Input) -> Answer {
        Answer {
            to: to.clone(),
            if_lost: Some(if_lost),
        }
    }

    pub(super) fn give(&mut self, input: Input) {
        self.if_lost = None;
        // An error says that the driver has ended; nobody waits.
        let _ = self.to.send(input);
    }

    pub(super) fn withdraw(&mut self) {
        self.if_lost = None;
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(lost) = self.if_lost.take() {
            let _ = self.to.send(lost);
        }
    }
}
