//! How long a call waits: until its time is over, or somebody wants the program to stop.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks whether a wait shall end.
const LOOK: Duration = Duration::from_millis(50);

/// What ends the waits of a socket.
#[derive(Clone)]
pub struct Limits {
    timeout: Option<Duration>,
    stop: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Limits {
    /// Each call waits so long at most.
    #[must_use]
    pub fn timeout(timeout: Duration) -> Self {
        Self { timeout: Some(timeout), stop: None }
    }

    /// Calls wait until `stop` says so, and then end with [`io::ErrorKind::ConnectionAborted`]: of calls that
    /// were interrupted the standard library makes some again.
    #[must_use]
    pub fn until(stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { timeout: None, stop: Some(Arc::new(stop)) }
    }

    /// The same, and so long at most.
    #[must_use]
    pub fn at_most(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// The longest wait.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(3600))
    }

    /// Tries until it need not wait; `ready` waits for a moment.
    pub(crate) fn wait<T>(
        &self,
        mut attempt: impl FnMut() -> io::Result<T>,
        mut ready: impl FnMut(Duration) -> io::Result<()>,
    ) -> io::Result<T> {
        let begin = Instant::now();
        loop {
            match attempt().map_err(|error| (error.kind(), error)) {
                Ok(value) => return Ok(value),
                // A signal came in between: the next attempt is as good.
                Err((io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted, _)) => {}
                Err((_, error)) => return Err(error),
            }
            let waited = begin.elapsed();
            if self.stop.as_ref().is_some_and(|stop| stop()) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            if self.timeout.is_some_and(|timeout| waited > timeout) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let left = self.timeout.map_or(LOOK, |timeout| timeout.saturating_sub(waited));
            // At least a moment: with none left a poll would say so without a look.
            ready(left.clamp(Duration::from_millis(1), LOOK))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_timeout_or_when_stopped() {
        let never = || -> io::Result<()> { Err(io::ErrorKind::WouldBlock.into()) };
        let pause = |time| {
            std::thread::sleep(time);
            Ok(())
        };
        let kind = |limits: &Limits| limits.wait(never, pause).map_err(|error| error.kind());
        let short = Limits::timeout(Duration::from_millis(5));
        assert_eq!(kind(&short), Err(io::ErrorKind::TimedOut));
        assert_eq!(kind(&Limits::until(|| true)), Err(io::ErrorKind::ConnectionAborted));
        let both = Limits::until(|| false).at_most(Duration::from_millis(5));
        assert_eq!(kind(&both), Err(io::ErrorKind::TimedOut));
    }
}
