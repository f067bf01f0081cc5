//! The command line: what `holdfast` understands, how settings come together, what it prints and how it exits.
//!
//! What belongs here: arguments, files that people name, text for people. What must not: the protocol, and any work of a relay
//! beyond putting its parts together.

mod check;
mod client;
mod exit;
mod files;
mod keygen;
mod publish;
mod query;
mod serve;
mod settings;
mod sync;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use exit::{EXIT_CODES, Exit, Failure};

/// A Nostr relay for channels and their artifacts.
#[derive(Parser)]
#[command(name = "holdfast", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a relay on an embedded database; SIGINT or SIGTERM stops it.
    #[command(after_help = EXIT_CODES)]
    Serve(Box<settings::ServeArgs>),
    /// Makes a secret key.
    #[command(after_help = EXIT_CODES)]
    Keygen(keygen::KeygenArgs),
    /// Publishes one event.
    #[command(after_help = EXIT_CODES)]
    Publish(publish::PublishArgs),
    /// Reads stored events or artifacts.
    #[command(after_help = EXIT_CODES)]
    Query(query::QueryArgs),
    /// Holds an exact copy of a set of artifacts and prints it.
    #[command(after_help = EXIT_CODES)]
    Sync(sync::SyncArgs),
    /// Judges a recorded history.
    #[command(after_help = check::EXIT_CODES)]
    Check(check::CheckArgs),
}

/// Does what the arguments of the process say; prints at most one line about a failure, to standard error.
pub fn run() -> ExitCode {
    match dispatch() {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("holdfast: {}", failure.text);
            failure.exit.into()
        }
    }
}

fn dispatch() -> Result<Exit, Failure> {
    let command = Cli::command().mut_subcommand("serve", settings::with_later_arguments);
    let parsed = command.try_get_matches().and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, matches))
    });
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return explain(&error),
    };
    match cli.command {
        Command::Serve(args) => {
            let (_, matches) = matches.subcommand().expect("serve was parsed");
            settings::refuse_later_arguments(matches)?;
            serve::serve(*args)
        }
        Command::Keygen(args) => keygen::keygen(&args),
        Command::Publish(args) => publish::publish(args),
        Command::Query(args) => query::query(args),
        Command::Sync(args) => sync::sync(args),
        Command::Check(args) => check::check(&args),
    }
}

/// Help and version as clap prints them; of an error only its first line, which says what is wrong.
fn explain(error: &clap::Error) -> Result<Exit, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody is left to be told that standard output is closed.
            let _ = error.print();
            Ok(Exit::Done)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Ok(Exit::Usage)
        }
        _ => {
            let text = error.to_string();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let end = lines.iter().position(|line| line.is_empty());
            let line = lines[..end.unwrap_or(lines.len())].join(" ");
            let line = line.strip_prefix("error: ").unwrap_or(&line).to_owned();
            Err(Failure::usage(line))
        }
    }
}
