//! Peers in processes of their own, to be killed without warning: this program again, started as
//! one end of a connection.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use gpunet_device::SocketAddr;
use gpunet_e2e_kernels::soak::{TERMS_BYTES, Terms};
use gpunet_sockets::{Address, By, Listener};
use gpunet_support::testing::share_limits;

use crate::end::{self, Manner};

/// A peer that runs. It is killed when it goes, and waited for, so that no zombie stays.
pub(crate) struct Child(std::process::Child);

impl Child {
    fn start(arguments: &[&str]) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let child = share_limits(&mut Command::new(program))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Ok(Self(child.context("starting a peer process")?))
    }

    /// One that calls.
    pub(crate) fn caller(to: &SocketAddr, terms: &Terms) -> Result<Self> {
        let words = terms.to_words().map(|word| word.to_string()).join(",");
        Self::start(&["--peer-calls", &to.to_string(), "--terms", &words])
    }

    /// One that answers, and where.
    pub(crate) fn answerer(at: &SocketAddr) -> Result<(Self, SocketAddr)> {
        let mut this = Self::start(&["--peer-answers", &at.to_string()])?;
        let output = this.0.stdout.take().context("the peer's output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("reading the peer's address")?;
        let at = line.trim().parse::<Address>().and_then(|address| address.resolve());
        let at = at.map_err(anyhow::Error::msg);
        Ok((this, at.with_context(|| format!("a peer listens at {line:?}"))?))
    }

    /// Kills it, now.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.0.kill().context("killing a peer")?;
        self.0.wait().context("waiting for a killed peer")?;
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may be gone and waited for already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A peer must not outlive a soak that is killed itself.
fn die_with_parent() {
    // Where the system refuses, the peer ends with its connection.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

/// The words of terms, as the command line has them.
pub(crate) fn parse_terms(text: &str) -> Result<Terms> {
    let words = text.split(',').map(str::parse).collect::<Result<Vec<u64>, _>>();
    let words: [u64; TERMS_BYTES / 8] =
        words.ok().and_then(|words| words.try_into().ok()).context("not the words of terms")?;
    Terms::from_words(words).context("not the words of terms")
}

/// Is a peer that calls.
pub(crate) fn be_caller(to: &SocketAddr, terms: &str) -> Result<()> {
    die_with_parent();
    let terms = parse_terms(terms)?;
    let stream = end::connect(to).with_context(|| format!("connecting to {to}"))?;
    end::call(stream, &terms, Manner::default());
    Ok(())
}

/// Is a peer that answers, until it is killed.
pub(crate) fn be_answerer(at: &SocketAddr) -> Result<()> {
    die_with_parent();
    let listener = Listener::bind(at, By::Tcp).with_context(|| format!("listening at {at}"))?;
    println!("{}", listener.address()?);
    // Nobody may have killed it: then it ends by itself.
    for _ in 0..60_000 {
        match listener.accept(&end::limits())? {
            Some(stream) => {
                std::thread::spawn(move || {
                    if let Ok(terms) = end::handshake(&stream) {
                        end::answer(stream, &terms, Manner::default());
                    }
                });
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    ensure!(false, "nobody killed this peer");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_as_they_are_written() {
        let terms = Terms {
            index: 1,
            seed: 2,
            turns: 3,
            most_up: 4,
            most_down: 5,
            most_tail: 6,
            ending: 0,
            timeout_ns: 8,
        };
        let text = terms.to_words().map(|word| word.to_string()).join(",");
        assert_eq!(parse_terms(&text).unwrap().to_words(), terms.to_words());
        for bad in ["", "1,2", "1,2,3,4,5,6,7,8,9", "a,b,c,d,e,f,g,h,i"] {
            assert!(parse_terms(bad).is_err(), "{bad}");
        }
    }
}
