//! What an observer of a node can see of its syncs: metrics, simulators and checks read it, no decision does.

use std::collections::BTreeSet;

use super::io::{ConnId, Generation, OpId};
use super::{Node, Owner};
use crate::ids::ArtifactId;
use crate::nostr::SubId;
use crate::sync::SyncSession;

/// One sync of a node.
#[derive(Clone, Copy, Debug)]
pub struct SyncView<'a> {
    /// Its connection.
    pub conn: ConnId,
    /// Its subscription id.
    pub sub: &'a SubId,
    /// Its incarnation.
    pub generation: Generation,
    /// Its initial read, while it runs.
    pub read: Option<OpId>,
    /// Its state.
    pub session: &'a SyncSession,
}

/// One sync's part in a head read in flight.
#[derive(Clone, Copy, Debug)]
pub struct HeadReadView<'a> {
    /// Its connection.
    pub conn: ConnId,
    /// Its incarnation.
    pub generation: Generation,
    /// The artifacts that are read for it; none when only access is.
    pub artifacts: &'a BTreeSet<ArtifactId>,
}

impl Node {
    /// Every sync, by connection and subscription id.
    pub fn syncs(&self) -> impl Iterator<Item = SyncView<'_>> {
        self.conns.iter().flat_map(|(conn, state)| {
            state.syncs.iter().map(|(sub, sync)| SyncView {
                conn: *conn,
                sub,
                generation: sync.generation,
                read: sync.op,
                session: &sync.session,
            })
        })
    }

    /// The sync of one subscription id.
    pub fn sync(&self, conn: ConnId, sub: &SubId) -> Option<SyncView<'_>> {
        let (sub, sync) = self.conns.get(&conn)?.syncs.get_key_value(sub)?;
        Some(SyncView {
            conn,
            sub,
            generation: sync.generation,
            read: sync.op,
            session: &sync.session,
        })
    }

    /// The syncs that share a head read in flight; none when the operation is no such read.
    pub fn head_read(&self, op: OpId) -> Vec<HeadReadView<'_>> {
        let takers = match self.ops.get(&op) {
            Some(Owner::Heads { takers }) => takers.as_slice(),
            _ => &[],
        };
        takers.iter().map(|taker| taker.view()).collect()
    }

    /// Connections for which a frame found no room: how many did, and whose the newest one was.
    pub fn refused(&self) -> impl Iterator<Item = (ConnId, u64, Option<Generation>)> + '_ {
        self.conns
            .iter()
            .filter(|(_, state)| state.refused_frames > 0)
            .map(|(conn, state)| (*conn, state.refused_frames, state.refused_of))
    }

    /// Operations in flight, each with exactly one answer to come.
    pub fn in_flight(&self) -> usize {
        self.ops.len()
    }

    /// Unsent bytes and frames of a connection, and those promised to reads in flight.
    pub fn queued(&self, conn: ConnId) -> Option<(usize, usize)> {
        let state = self.conns.get(&conn)?;
        Some((
            state.queued_bytes + state.reserved_bytes,
            state.queued_frames + state.reserved_frames,
        ))
    }
}
