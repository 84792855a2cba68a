//! A limit for calls that may never return: a driver that waits for its device, a file that does.

use std::sync::mpsc;
use std::time::Duration;
use std::{fmt, io, thread};

/// Why a call gave nothing.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// It takes longer than this.
    Late(Duration),
    /// The system gives no thread for it.
    NoThread(io::Error),
    /// It panicked.
    Broken,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(limit) if limit.subsec_millis() == 0 => {
                write!(f, "no answer within {} s", limit.as_secs())
            }
            Self::Late(limit) => write!(f, "no answer within {} ms", limit.as_millis()),
            Self::NoThread(error) => {
                write!(f, "not asked, since no thread can be started (ulimit -u): {error}")
            }
            Self::Broken => f.write_str("not asked to the end, which is a fault of diagnose"),
        }
    }
}

/// A call on its way. One that hangs is left to the end of the process.
pub(crate) struct Pending<T>(Result<mpsc::Receiver<T>, NoAnswer>);

impl<T: Send + 'static> Pending<T> {
    /// Starts `f` in a thread of its own.
    pub(crate) fn start(f: impl FnOnce() -> T + Send + 'static) -> Self {
        let (to, from) = mpsc::sync_channel(1);
        let body = move || {
            // Nobody listens any more: too late.
            let _ = to.send(f());
        };
        let thread = thread::Builder::new().name("diagnose-look".to_owned()).spawn(body);
        Self(thread.map(|_| from).map_err(NoAnswer::NoThread))
    }

    /// What it returns, if that comes in time.
    pub(crate) fn wait(self, limit: Duration) -> Result<T, NoAnswer> {
        self.0?.recv_timeout(limit).map_err(|why| match why {
            mpsc::RecvTimeoutError::Timeout => NoAnswer::Late(limit),
            mpsc::RecvTimeoutError::Disconnected => NoAnswer::Broken,
        })
    }
}

/// What `f` returns, if that comes in time.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    Pending::start(f).wait(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_an_answer_says_why() {
        assert_eq!(within(Duration::from_secs(5), || 7).ok(), Some(7));
        let late = within(Duration::from_millis(20), || thread::sleep(Duration::from_secs(9)));
        assert_eq!(late.unwrap_err().to_string(), "no answer within 20 ms");
        assert_eq!(NoAnswer::Late(Duration::from_secs(20)).to_string(), "no answer within 20 s");
        let broken = within(Duration::from_secs(5), || panic!("on purpose"));
        assert!(matches!(broken, Err::<(), _>(NoAnswer::Broken)));
    }
}
