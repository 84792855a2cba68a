//! Remote ends of connections: clients and echo servers that follow a script of their own, break
//! off where the seed says so, and check every byte.

use std::collections::VecDeque;
use std::rc::Rc;

use super::network::Network;
use crate::transport::Transferred;

/// The byte at `offset` of what the client of a stream sends.
pub(crate) fn pattern(stream: u64, offset: u64) -> u8 {
    let mixed = (stream + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(offset * 0x0101_0107);
    (mixed >> 24) as u8 ^ offset as u8
}

/// What a peer does.
pub(crate) enum Role {
    /// Sends `total` bytes and expects them back.
    Client { total: u64, sent: u64, got: u64, ended: bool },
    /// Accepts connections and echoes.
    Server { connections: Vec<Echo> },
}

/// A connection of an echo server.
pub(crate) struct Echo {
    endpoint: usize,
    unsent: VecDeque<u8>,
    got: u64,
    ended: bool,
    done: bool,
}

/// See the module.
pub(crate) struct Peer {
    pub(crate) network: Rc<Network>,
    pub(crate) endpoint: usize,
    pub(crate) stream: u64,
    pub(crate) role: Role,
    /// Breaks off once it has got so many bytes.
    pub(crate) breaks_at: Option<u64>,
    /// It may be broken off.
    pub(crate) excused: bool,
    /// Bytes that a client sends at a time, and whether it has all of them back before it sends more.
    pub(crate) burst: u64,
    pub(crate) waits: bool,
    pub(crate) done: bool,
}

impl Peer {
    /// Does a little. What it has to complain of.
    ///
    /// `excused`: kernels were stopped, so that streams may end early.
    pub(crate) fn step(&mut self, excused: bool) -> Result<(), String> {
        if self.done {
            return Ok(());
        }
        let (stream, endpoint) = (self.stream, self.endpoint);
        let excused = excused || self.excused;
        let network = &self.network;
        match &mut self.role {
            Role::Client { total, sent, got, ended } => {
                if self.breaks_at.is_some_and(|at| *got >= at) {
                    network.reset(endpoint);
                    self.done = true;
                    return Ok(());
                }
                let waits = self.waits && *got < *sent && *sent % self.burst == 0;
                if *sent < *total && !waits {
                    let most = (*total - *sent).min(self.burst - *sent % self.burst);
                    let bytes: Vec<u8> =
                        (*sent..*sent + most).map(|at| pattern(stream, at)).collect();
                    match network.send(endpoint, &bytes) {
                        Ok(count) => *sent += count as u64,
                        Err(errno) if excused => {
                            let _ = errno;
                            self.done = true;
                            return Ok(());
                        }
                        Err(errno) => return Err(format!("client {stream}: sending gave {errno}")),
                    }
                } else if !*ended && !waits {
                    network.end(endpoint);
                    *ended = true;
                }
                match network.receive(endpoint, 2000) {
                    Ok((bytes, Transferred::Bytes(_))) => {
                        for byte in bytes {
                            if byte != pattern(stream, *got) {
                                return Err(format!(
                                    "client {stream}: byte {got} of {total} is wrong"
                                ));
                            }
                            *got += 1;
                        }
                    }
                    Ok((_, Transferred::Later)) => {}
                    Ok((_, Transferred::End)) if *got == *total || excused => {
                        network.close(endpoint);
                        self.done = true;
                    }
                    Ok((_, Transferred::End)) => {
                        return Err(format!(
                            "client {stream}: the echo ended after {got} of {total} bytes"
                        ));
                    }
                    Err(_) if excused => self.done = true,
                    Err(errno) => {
                        return Err(format!(
                            "client {stream}: {errno} after {got} of {total} bytes"
                        ));
                    }
                }
            }
            Role::Server { connections } => {
                while let Some(endpoint) = network.accept(endpoint) {
                    let (unsent, got) = (VecDeque::new(), 0);
                    connections.push(Echo { endpoint, unsent, got, ended: false, done: false });
                }
                for echo in connections.iter_mut().filter(|echo| !echo.done) {
                    echo.step(network, self.breaks_at)?;
                }
            }
        }
        Ok(())
    }
}

impl Echo {
    fn step(&mut self, network: &Network, breaks_at: Option<u64>) -> Result<(), String> {
        if breaks_at.is_some_and(|at| self.got >= at) {
            network.reset(self.endpoint);
            self.done = true;
            return Ok(());
        }
        if self.unsent.len() < 2000 {
            match network.receive(self.endpoint, 1000) {
                Ok((bytes, Transferred::Bytes(_))) => {
                    self.got += bytes.len() as u64;
                    self.unsent.extend(bytes);
                }
                Ok((_, Transferred::Later)) => {}
                Ok((_, Transferred::End)) => self.ended = true,
                // The kernel's side has given up, which is for its own checks to judge.
                Err(_) => {
                    self.done = true;
                    return Ok(());
                }
            }
        }
        let (front, _) = self.unsent.as_slices();
        if !front.is_empty() {
            match network.send(self.endpoint, front) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(_) => {
                    self.done = true;
                    return Ok(());
                }
            }
        }
        if self.ended && self.unsent.is_empty() {
            network.close(self.endpoint);
            self.done = true;
        }
        Ok(())
    }
}
