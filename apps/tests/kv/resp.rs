//! A client that sees answers as they come: raw bytes, one answer at a time.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use gpunet_support::testing::hang_limit;
use rustix::net::sockopt::set_socket_linger;

/// For an answer of a server that has other work too.
pub(crate) const ANSWER: Duration = Duration::from_secs(3);
/// More than sockets take at once: sent while another thread receives.
const LONG: usize = 16 << 10;

/// A connection.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    stream: Stream,
    reader: BufReader<Stream>,
}

/// A request of these arguments.
pub(crate) fn request<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.as_ref().len()).into_bytes());
        bytes.extend_from_slice(word.as_ref());
        bytes.extend(b"\r\n");
    }
    bytes
}

/// An answer of bytes.
pub(crate) fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// The number of an answer that is one.
pub(crate) fn integer(answer: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(answer.strip_prefix(b":")?).ok()?;
    text.trim_end().parse().ok()
}

/// What bytes are, for a message: not all of them where there are many.
pub(crate) fn show(bytes: &[u8]) -> String {
    let (shown, more) = (&bytes[..bytes.len().min(300)], bytes.len().saturating_sub(300));
    let more = if more > 0 { format!(" and {more} bytes more") } else { String::new() };
    format!("\"{}\"{more}", shown.escape_ascii())
}

impl Client {
    pub(crate) fn tcp(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap_or_else(|e| panic!("{address}: {e}"));
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(hang_limit(ANSWER))).unwrap();
        stream.set_write_timeout(Some(hang_limit(ANSWER))).unwrap();
        Self::of(Stream::Tcp(stream))
    }

    /// One that waits for so long, and no longer, for bytes to come or to go.
    pub(crate) fn within(address: &str, limit: Duration) -> Self {
        let this = Self::tcp(address);
        this.set_timeout(limit);
        this
    }

    pub(crate) fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(hang_limit(ANSWER))).unwrap();
        Self::of(Stream::Unix(stream))
    }

    fn of(stream: Stream) -> Self {
        Self { reader: BufReader::with_capacity(1 << 16, stream.try_clone().unwrap()), stream }
    }

    /// Changes how long it waits for bytes to come or to go.
    pub(crate) fn set_timeout(&self, limit: Duration) {
        match &self.stream {
            Stream::Tcp(stream) => stream
                .set_read_timeout(Some(limit))
                .and_then(|()| stream.set_write_timeout(Some(limit))),
            Stream::Unix(stream) => stream.set_read_timeout(Some(limit)),
        }
        .unwrap();
    }

    /// Sends bytes, all of them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }

    /// Another hand on the connection, to send while this one receives.
    pub(crate) fn sender(&self) -> Self {
        Self::of(self.stream.try_clone().unwrap())
    }

    /// Says that nothing more will be sent.
    pub(crate) fn end_sending(&self) {
        // A server that has closed already makes this fail.
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(std::net::Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(std::net::Shutdown::Write),
        };
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(self) {
        if let Stream::Tcp(stream) = &self.stream {
            set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
        }
    }

    /// The next answer, as it came.
    pub(crate) fn try_answer(&mut self) -> io::Result<Vec<u8>> {
        let mut answer = Vec::new();
        self.read_value(&mut answer)?;
        Ok(answer)
    }

    pub(crate) fn answer(&mut self) -> Vec<u8> {
        self.try_answer().expect("an answer")
    }

    /// Sends a request and receives its answer.
    pub(crate) fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Vec<u8> {
        self.exchange(&request(words), 1).remove(0)
    }

    /// The same for many requests: sends all, receives so many answers.
    pub(crate) fn exchange(&mut self, requests: &[u8], answers: usize) -> Vec<Vec<u8>> {
        self.try_exchange(requests, answers).expect("requests are answered")
    }

    pub(crate) fn try_exchange(
        &mut self,
        requests: &[u8],
        answers: usize,
    ) -> io::Result<Vec<Vec<u8>>> {
        let mut sender = self.sender();
        std::thread::scope(|scope| {
            let sending = if requests.len() > LONG {
                Some(scope.spawn(move || sender.send(requests)))
            } else {
                sender.send(requests)?;
                None
            };
            let answers: io::Result<_> = (0..answers).map(|_| self.try_answer()).collect();
            let sent = sending.map_or(Ok(()), |sending| sending.join().expect("it sends"));
            answers.and_then(|answers| sent.map(|()| answers))
        })
    }

    /// All that comes until the server closes; None if it does not.
    pub(crate) fn rest(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.reader.read_to_end(&mut bytes) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
            // A reset is an end, too.
            _ => Some(bytes),
        }
    }

    fn read_value(&mut self, answer: &mut Vec<u8>) -> io::Result<()> {
        let start = answer.len();
        if self.reader.read_until(b'\n', answer)? == 0 || !answer.ends_with(b"\r\n") {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "closed within an answer"));
        }
        let line = &answer[start..];
        let odd = || io::Error::other(format!("no answer: {}", show(line)));
        let number = || {
            let text = std::str::from_utf8(&line[1..]).map_err(|_| odd())?;
            text.trim_end().parse::<i64>().map_err(|_| odd())
        };
        match line[0] {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' => Ok(()),
            b'$' | b'=' => match number()? {
                -1 => Ok(()),
                length => {
                    let from = answer.len();
                    answer.resize(from + usize::try_from(length).map_err(|_| odd())? + 2, 0);
                    self.reader.read_exact(&mut answer[from..])
                }
            },
            kind @ (b'*' | b'%' | b'~') => {
                let elements = number()? * if kind == b'%' { 2 } else { 1 };
                (0..elements).try_for_each(|_| self.read_value(answer))
            }
            _ => Err(odd()),
        }
    }
}

/// The byte strings of an answer, in order, however deep they stand.
pub(crate) fn strings(answer: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = answer;
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let (line, behind) = (&rest[..end], &rest[end + 2..]);
        rest = behind;
        // Nothing in the place of bytes has the length -1.
        let length = line.strip_prefix(b"$").and_then(|text| std::str::from_utf8(text).ok());
        if let Some(length) = length.and_then(|text| text.parse::<usize>().ok()) {
            found.push(rest[..length].to_vec());
            rest = &rest[length + 2..];
        }
    }
    found
}
