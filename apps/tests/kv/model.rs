//! A client of the soak that knows what each answer has to be: its keys are its own.

use std::collections::HashMap;
use std::time::Instant;

use gpunet_support::pattern::{Draw, fill_slice};
use gpunet_support::testing::hang_limit;

use crate::resp::{Client, bulk, integer, request, show, strings};
use crate::soak::{Failure, LIMIT};

/// The largest value, and the largest that is drawn often.
const MIB: usize = 1 << 20;
const LARGE: u64 = 300 << 10;
/// What a request may have of values: it has up to 2 MiB in all.
const REQUEST: usize = 2 * MIB - 4096;
/// Keys of a client.
const KEYS: u64 = 64;
/// Connections that it has at a time: its requests come to several blocks of the kernel.
const CONNECTIONS: usize = 3;
/// A time to live that no soak sees the end of, in seconds.
const FAR: i64 = 1_000_000;
const NOT_A_NUMBER: &[u8] = b"-ERR value is not an integer or out of range\r\n";
const TOO_LONG: &[u8] = b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";

struct Entry {
    value: Vec<u8>,
    expires: bool,
}

/// What an answer has to be.
enum Expected {
    Bytes(Vec<u8>),
    /// A number a little below [`FAR`].
    Far,
}

impl Expected {
    fn is(&self, answer: &[u8]) -> bool {
        match self {
            Self::Bytes(bytes) => bytes == answer,
            Self::Far => integer(answer).is_some_and(|ttl| ttl > FAR * 9 / 10 && ttl <= FAR),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Bytes(bytes) => show(bytes),
            Self::Far => format!("about {FAR}"),
        }
    }
}

/// The client.
pub(crate) struct Checker {
    address: String,
    prefix: String,
    draw: Draw,
    clients: Vec<Client>,
    model: HashMap<Vec<u8>, Entry>,
    /// Random bytes that values are cut from.
    bytes: Vec<u8>,
    /// Answers that were compared.
    pub(crate) checked: u64,
}

fn ok() -> Expected {
    Expected::Bytes(b"+OK\r\n".to_vec())
}

fn number(number: i64) -> Expected {
    Expected::Bytes(format!(":{number}\r\n").into_bytes())
}

fn bulk_or_nil(value: Option<&Entry>) -> Vec<u8> {
    value.map_or_else(|| b"$-1\r\n".to_vec(), |entry| bulk(&entry.value))
}

/// The number that a value is, if it is written as Redis writes numbers.
fn number_in(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

impl Checker {
    pub(crate) fn new(address: &str, id: u64) -> Self {
        let mut bytes = vec![0; 2 * MIB];
        fill_slice(&mut bytes, id, 0);
        Self {
            address: address.to_owned(),
            prefix: format!("checked {id} "),
            draw: Draw::new(id, 21),
            clients: (0..CONNECTIONS).map(|_| Client::within(address, hang_limit(LIMIT))).collect(),
            model: HashMap::new(),
            bytes,
            checked: 0,
        }
    }

    /// Its keys that should be there.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.model.keys()
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{}{}", self.prefix, self.draw.below(KEYS)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.draw.below(200) {
            0 => MIB,
            1..10 => self.draw.below(LARGE + 1) as usize,
            10..40 => self.draw.below(64 << 10) as usize,
            40..100 => self.draw.below(4 << 10) as usize,
            100..120 => return self.draw.below(1_000_000).to_string().into_bytes(),
            _ => self.draw.below(64) as usize,
        };
        let from = self.draw.below((self.bytes.len() - length) as u64) as usize;
        self.bytes[from..from + length].to_vec()
    }

    fn store(&mut self, key: &[u8], value: Vec<u8>) -> Option<Entry> {
        self.model.insert(key.to_vec(), Entry { value, expires: false })
    }

    /// Draws a request. Its words, and its answer.
    fn request(&mut self) -> (Vec<Vec<u8>>, Expected) {
        let key = self.key();
        let word = |word: &str| word.as_bytes().to_vec();
        match self.draw.below(14) {
            0..3 => {
                let value = self.value();
                self.store(&key, value.clone());
                (vec![word("SET"), key, value], ok())
            }
            3..5 => {
                let answer = bulk_or_nil(self.model.get(&key));
                (vec![word("GET"), key], Expected::Bytes(answer))
            }
            5 => {
                let mut words = vec![word("DEL")];
                words.extend((0..self.draw.between(1, 4)).map(|_| self.key()));
                let gone = words[1..].iter().filter_map(|key| self.model.remove(key)).count();
                (words, number(gone as i64))
            }
            6 => {
                let answer = self.increment(&key);
                (vec![word("INCR"), key], answer)
            }
            7 => {
                let more = self.value();
                let answer = self.append(&key, &more);
                (vec![word("APPEND"), key, more], answer)
            }
            8 => {
                let mut words = vec![word("MSET")];
                let mut left = REQUEST;
                for _ in 0..self.draw.between(1, 6) {
                    let (key, value) = (self.key(), self.value());
                    if value.len() > left {
                        break;
                    }
                    left -= value.len();
                    self.store(&key, value.clone());
                    words.extend([key, value]);
                }
                (words, ok())
            }
            9 => {
                let mut words = vec![word("MGET")];
                words.extend((0..self.draw.between(1, 8)).map(|_| self.key()));
                let answer = self.values_of(&words[1..]);
                (words, Expected::Bytes(answer))
            }
            10 => {
                let value = self.value();
                let old = self.store(&key, value.clone());
                (vec![word("GETSET"), key, value], Expected::Bytes(bulk_or_nil(old.as_ref())))
            }
            11 => {
                let old = self.model.remove(&key);
                (vec![word("GETDEL"), key], Expected::Bytes(bulk_or_nil(old.as_ref())))
            }
            12 => {
                let entry = self.model.get_mut(&key);
                let found = entry.map(|entry| entry.expires = true).is_some();
                (vec![word("EXPIRE"), key, FAR.to_string().into_bytes()], number(found.into()))
            }
            _ => {
                let answer = match self.model.get(&key) {
                    Some(Entry { expires: true, .. }) => Expected::Far,
                    Some(_) => number(-1),
                    None => number(-2),
                };
                (vec![word("TTL"), key], answer)
            }
        }
    }

    fn increment(&mut self, key: &[u8]) -> Expected {
        let Some(entry) = self.model.get_mut(key) else {
            self.store(key, b"1".to_vec());
            return number(1);
        };
        // No value that is drawn comes near to the largest number.
        let Some(value) = number_in(&entry.value) else {
            return Expected::Bytes(NOT_A_NUMBER.to_vec());
        };
        entry.value = (value + 1).to_string().into_bytes();
        number(value + 1)
    }

    fn append(&mut self, key: &[u8], more: &[u8]) -> Expected {
        if !self.model.contains_key(key) {
            self.store(key, Vec::new());
        }
        let value = &mut self.model.get_mut(key).expect("it is there").value;
        if value.len() + more.len() > MIB {
            return Expected::Bytes(TOO_LONG.to_vec());
        }
        value.extend_from_slice(more);
        number(value.len() as i64)
    }

    /// The answer to an MGET.
    fn values_of(&self, keys: &[Vec<u8>]) -> Vec<u8> {
        let mut answer = format!("*{}\r\n", keys.len()).into_bytes();
        answer.extend(keys.iter().flat_map(|key| bulk_or_nil(self.model.get(key))));
        answer
    }

    /// Sends some requests at once and compares their answers.
    pub(crate) fn step(&mut self) -> Result<(), Failure> {
        let at = self.draw.below(CONNECTIONS as u64) as usize;
        if self.draw.once_in(40) {
            let new = Client::within(&self.address, hang_limit(LIMIT));
            let old = std::mem::replace(&mut self.clients[at], new);
            if self.draw.once_in(2) {
                old.reset();
            }
        }
        let drawn: Vec<_> = (0..self.draw.pick([1, 1, 2, 5, 16])).map(|_| self.request()).collect();
        self.compare(at, drawn)
    }

    fn compare(&mut self, at: usize, drawn: Vec<(Vec<Vec<u8>>, Expected)>) -> Result<(), Failure> {
        let requests: Vec<u8> = drawn.iter().flat_map(|(words, _)| request(words)).collect();
        let begin = Instant::now();
        let answers = self.clients[at].try_exchange(&requests, drawn.len()).map_err(|error| {
            let names: Vec<_> = drawn.iter().map(|(words, _)| show(&words[0])).collect();
            Failure::during(&format!("{} bytes of {}", requests.len(), names.join(" ")), error)
        })?;
        if begin.elapsed() > hang_limit(LIMIT) {
            return Err(Failure::Hung(format!("answered after {:?}", begin.elapsed())));
        }
        for ((words, expected), answer) in drawn.iter().zip(answers) {
            self.checked += 1;
            if !expected.is(&answer) {
                let words: Vec<_> = words.iter().map(|word| show(word)).collect();
                let (expected, answer) = (expected.show(), show(&answer));
                return Err(Failure::Lost(format!("{words:?}: {answer}, expected {expected}")));
            }
        }
        Ok(())
    }

    /// Reads all of its keys, those too that should not be there.
    pub(crate) fn read_back(&mut self) -> Result<(), Failure> {
        self.clients[0] = Client::within(&self.address, hang_limit(LIMIT));
        for key in 0..KEYS {
            let key = format!("{}{key}", self.prefix).into_bytes();
            let answer = Expected::Bytes(bulk_or_nil(self.model.get(&key)));
            self.compare(0, vec![(vec![b"GET".to_vec(), key], answer)])?;
        }
        Ok(())
    }

    /// Deletes all of its keys.
    pub(crate) fn delete(mut self) -> Result<(), Failure> {
        let drawn = std::mem::take(&mut self.model)
            .into_keys()
            .map(|key| (vec![b"DEL".to_vec(), key], number(1)))
            .collect();
        self.compare(0, drawn)
    }
}

/// All keys that SCAN finds.
pub(crate) fn scan(client: &mut Client) -> Vec<Vec<u8>> {
    let (mut cursor, mut keys) = (b"0".to_vec(), Vec::new());
    loop {
        let answer = client.ask(&[b"SCAN".as_slice(), &cursor, b"COUNT", b"1000"]);
        let mut found = strings(&answer).into_iter();
        cursor = found.next().expect("a cursor");
        keys.extend(found);
        if cursor == b"0" {
            return keys;
        }
    }
}
