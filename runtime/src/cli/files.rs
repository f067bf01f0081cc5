//! Key files: 64 hexadecimal characters and a line end, readable by their owner only. Their content is never printed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use holdfast_core::nostr::SecretKey;

use super::exit::{Exit, Failure};

/// Reads a key file.
///
/// # Errors
/// If the file cannot be read or holds no key.
pub(super) fn read_key(path: &Path) -> Result<SecretKey, Failure> {
    let text = fs::read_to_string(path).map_err(|error| unusable(path, &error))?;
    text.trim()
        .parse()
        .map_err(|error| Failure::usage(format_args!("{}: {error}", path.display())))
}

/// Writes a new key file with mode 0600 and makes sure that it is on the disk.
///
/// # Errors
/// [`Exit::Conflict`] if the file is there already, [`Exit::Unreachable`] if it cannot be written.
pub(super) fn write_new_key(path: &Path, key: &SecretKey) -> Result<(), Failure> {
    let write = |mut file: File| {
        writeln!(file, "{}", key.reveal_hex())?;
        file.sync_all()
    };
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    opened.and_then(write).map_err(|error| {
        let failure = unusable(path, &error);
        match error.kind() {
            ErrorKind::AlreadyExists => Failure {
                exit: Exit::Conflict,
                ..failure
            },
            _ => failure,
        }
    })
}

/// A file or directory that cannot be used.
pub(super) fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::unreachable(format_args!("{}: {error}", path.display()))
}
