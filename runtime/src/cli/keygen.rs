//! `holdfast keygen`.

use std::path::PathBuf;

use super::exit::{Exit, Failure};
use super::files::write_new_key;
use crate::random;

/// Arguments of `keygen`.
#[derive(clap::Args)]
pub(super) struct KeygenArgs {
    /// Writes the secret key to this new file, readable by its owner only, and prints just the public key
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Makes a key and prints its public half; the secret half goes to the file, or is printed where no file is named.
pub(super) fn keygen(args: &KeygenArgs) -> Result<Exit, Failure> {
    let key = random::secret_key()
        .map_err(|error| Failure::new(Exit::Refused, format_args!("no random bytes: {error}")))?;
    match &args.out {
        Some(path) => write_new_key(path, &key)?,
        None => println!("secret {}", key.reveal_hex()),
    }
    println!("public {}", key.public_key());
    Ok(Exit::Done)
}
