//! The line that shows how a campaign goes on, on a terminal only.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::explore::Tally;
use crate::goals;

/// Milliseconds between two drawings.
const REDRAW_MS: u64 = 200;

/// A progress line; without a terminal it does nothing.
pub(super) struct Progress {
    bar: ProgressBar,
    began: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    /// For so many steps; none if their number is open.
    pub(super) fn new(is_shown: bool, steps: Option<u64>) -> Progress {
        let target = match is_shown {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(steps, target);
        let template = match steps {
            Some(_) => "{elapsed} {bar:24} {pos}/{len} {msg}",
            None => "{elapsed} {pos} {msg}",
        };
        let style = ProgressStyle::with_template(template).expect("a template of known keys");
        bar.set_style(style);
        Progress {
            bar,
            began: Instant::now(),
            drawn: None,
        }
    }

    /// Shows a campaign.
    pub(super) fn show(&mut self, tally: &Tally) {
        let is_due = |at: Instant| at.elapsed() >= Duration::from_millis(REDRAW_MS);
        if !self.drawn.is_none_or(is_due) {
            return;
        }
        self.drawn = Some(Instant::now());
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        self.bar.set_position(tally.seeds());
        self.bar.set_message(format!(
            "{:.0} seeds/s, {:.2} simulated hours, {} faults, {} of {} goals, {} failed",
            tally.seeds() as f64 / seconds,
            tally.simulated_ms() as f64 / 3_600_000.0,
            tally.faults_fired(),
            tally.goals_reached(),
            goals::ALL.len(),
            tally.failures(),
        ));
    }

    /// One step more, and what it was.
    pub(super) fn step(&mut self, text: String) {
        self.bar.inc(1);
        self.bar.set_message(text);
    }

    /// The time since the beginning; the line goes away.
    pub(super) fn end(self) -> Duration {
        self.bar.finish_and_clear();
        self.began.elapsed()
    }
}
