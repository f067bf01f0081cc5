//! The explorer and the hunt for seeded bugs, with a fake in the place of the simulator. Nothing here simulates a relay.

mod campaigns;
mod fake;
mod hunts;
