//! Clients that nobody here wrote: redis-cli, redis-benchmark and redis-py.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Guarded, run, skip};
use crate::resp::{bulk, request};
use crate::server::{Kv, number_of};

const LIMIT: Duration = Duration::from_secs(12);

/// Whether a program is here; notes that the test is skipped when not.
fn present(test: &str, program: &str) -> bool {
    let null = Stdio::null;
    let mut command = Command::new(program);
    let tried = command.arg("--version").stdin(null()).stdout(null()).stderr(null()).status();
    if tried.is_err() {
        skip(test, &format!("{program} is not installed"));
    }
    tried.is_ok()
}

/// What a program prints that is given some text.
fn printed(command: &mut Command, input: &[u8]) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Guarded::spawn(command);
    let mut stdin = child.0.stdin.take().unwrap();
    let mut stdout = child.0.stdout.take().unwrap();
    let input = input.to_vec();
    let sending = std::thread::spawn(move || stdin.write_all(&input));
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut stdout, &mut text).unwrap();
    sending.join().unwrap().expect("it reads all");
    let status = child.wait(LIMIT).expect("it ends");
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(status.success(), "{command:?} ended with {status}: {text}");
    text
}

#[test]
fn redis_cli_runs_against_kv() {
    if !present("redis_cli_runs_against_kv", "redis-cli") {
        return;
    }
    let kv = Kv::start(&[]);
    let script = "SET greeting \"hello world\"\nGET greeting\nINCR number\nINCR number\n\
        MGET greeting number nothing\nTTL greeting\nDEL greeting number\nGET greeting\n\
        NONSENSE\nPING\n";
    let expected = "OK\nhello world\n1\n2\nhello world\n2\n\n-1\n2\n\n\
        ERR unknown command 'NONSENSE', with args beginning with: \n\nPONG\n";
    for version in ["-2", "-3"] {
        let mut command = Command::new("redis-cli");
        let text = printed(command.args(["-p", kv.port(), version]), script.as_bytes());
        assert_eq!(text, expected, "redis-cli {version}");
    }
    let cli = |arguments: &[&str], input: &[u8]| {
        printed(Command::new("redis-cli").args(["-p", kv.port()]).args(arguments), input)
    };
    // One argument from standard input, of a mebibyte.
    let large = vec![b'v'; 1 << 20];
    assert_eq!(cli(&["-x", "SET", "large"], &large), "OK\n");
    assert_eq!(cli(&["GET", "large"], b"").len(), large.len() + 1);
    // Many requests at once, raw.
    let requests: Vec<u8> =
        (0..5000).flat_map(|n| request(&["SET", &format!("key:{n}"), "v"])).collect();
    let text = cli(&["--pipe"], &requests);
    assert!(text.contains("errors: 0, replies: 5000"), "{text}");
    assert_eq!(cli(&["--scan", "--pattern", "key:*"], b"").lines().count(), 5000);
    let text = cli(&["--bigkeys"], b"");
    assert!(text.contains("Sampled 5001 keys"), "{text}");
    assert!(cli(&["INFO"], b"").contains("redis_version:"));
    kv.end();
}

#[test]
fn redis_benchmark_runs_against_kv() {
    if !present("redis_benchmark_runs_against_kv", "redis-benchmark") {
        return;
    }
    let kv = Kv::start(&[]);
    let tests = ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"];
    for pipeline in ["1", "16"] {
        let mut command = Command::new("redis-benchmark");
        command.args(["-p", kv.port(), "-c", "50", "-n", "5000", "-P", pipeline, "--csv"]);
        command.args(["-t", "ping,set,get,incr,mset", "-r", "1000", "-d", "100"]);
        let finished = run(&mut command, LIMIT);
        let text = finished.stdout;
        assert!(finished.status.success(), "{text}{}", finished.stderr);
        for test in tests {
            assert!(text.contains(&format!("\"{test}\"")), "-P {pipeline}, {test}: {text}");
        }
        assert!(!(text.clone() + &finished.stderr).contains("rror"), "{text}{}", finished.stderr);
    }
    assert!(number_of(&mut kv.client(), &["DBSIZE"]) > 1000);
    let statistics = kv.end();
    assert!(statistics.get("requests") > 60_000);
}

const PYTHON: &str = r#"
import sys, threading, redis
port, protocol = int(sys.argv[1]), int(sys.argv[2])
more = {'protocol': protocol} if protocol else {}
r = redis.Redis(port=port, socket_timeout=60, client_name='tester', **more)
assert r.ping() and r.echo('hi') == b'hi'
assert r.client_getname() in (b'tester', 'tester'), r.client_getname()
assert r.client_id() > 0
assert r.flushall()
assert r.set('a', 'one') is True and r.get('a') == b'one'
assert r.set('a', 'two', nx=True) is None and r.set('a', 'two', xx=True) is True
assert r.set('a', 'three', get=True) == b'two'
assert r.set('a', 'four', ex=100) and 90 < r.ttl('a') <= 100
assert r.set('a', 'five', keepttl=True) and 90000 < r.pttl('a') <= 100000
assert r.persist('a') and r.ttl('a') == -1 and r.ttl('none') == -2
assert r.expire('a', 50) and r.expireat('a', 4000000000) and r.pexpire('a', 90000)
assert r.getset('a', 'six') == b'five' and r.getdel('a') == b'six' and r.get('a') is None
assert r.incr('n') == 1 and r.incrby('n', 41) == 42 and r.decr('n') == 41 and r.decrby('n', 1) == 40
assert r.append('s', 'abc') == 3 and r.append('s', 'def') == 6 and r.strlen('s') == 6
assert r.mset({'x': 1, 'y': b'\x00\xff\r\n', 'z': ''}) and r.mget('x', 'y', 'z', 'none') == [b'1', b'\x00\xff\r\n', b'', None]
assert r.setnx('x', 2) is False and r.setex('e', 10, 'v') and r.psetex('p', 10000, 'v')
assert r.exists('x', 'y', 'none') == 2 and r.type('x') == b'string' and r.type('none') == b'none'
assert r.delete('x', 'y', 'none') == 2
try:
    r.incr('s')
    raise AssertionError('text is no number')
except redis.ResponseError as error:
    assert 'not an integer' in str(error), error
large = bytes(range(256)) * 4096
assert r.set('large', large) and r.get('large') == large
with r.pipeline(transaction=False) as pipe:
    for n in range(1000):
        pipe.set(f'key:{n}', n).get(f'key:{n}')
    answers = pipe.execute()
assert answers[1::2] == [str(n).encode() for n in range(1000)]
assert set(r.scan_iter('key:*', count=100)) == {f'key:{n}'.encode() for n in range(1000)}
assert r.dbsize() == 1000 + len([k for k in (b'z', b'n', b's', b'e', b'p', b'large') if r.exists(k)])
assert r.info()['redis_version'] and r.info('memory')['used_memory'] > 0
assert int(r.config_get('maxmemory')['maxmemory']) > 0
assert r.time()[0] > 1700000000
def work(name):
    for n in range(100):
        assert r.incr(f'worker:{name}') == n + 1
workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[w.start() for w in workers]
[w.join() for w in workers]
assert r.mget([f'worker:{n}' for n in range(8)]) == [b'100'] * 8
s = redis.Redis(port=port, db=0, decode_responses=True, **more)
assert s.set('text', 'grün') and s.get('text') == 'grün'
r.flushall()
assert r.dbsize() == 0
print('redis-py', redis.__version__, 'is content')
"#;

/// Debian's, or the one that GPUNET_REDIS_PY names: a wheel, or a folder with the package.
fn redis_py(test: &str, protocol: &str, newest: bool) {
    let mut command = Command::new("/usr/bin/python3");
    command.env_remove("PYTHONPATH");
    if newest {
        let Some(wheel) = std::env::var_os("GPUNET_REDIS_PY") else {
            return skip(test, "GPUNET_REDIS_PY names no newer redis-py");
        };
        command.env("PYTHONPATH", wheel);
    }
    let mut try_import = Command::new("/usr/bin/python3");
    try_import.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    try_import.args(["-c", "import redis"]).stdin(Stdio::null()).stderr(Stdio::null());
    if !try_import.status().is_ok_and(|status| status.success()) {
        return skip(test, "redis-py is not installed for /usr/bin/python3");
    }
    let kv = Kv::start(&[]);
    command.args(["-c", PYTHON, kv.port(), protocol]).stdin(Stdio::null());
    let finished = run(&mut command, LIMIT);
    assert!(finished.stdout.ends_with("is content\n"), "{}{}", finished.stdout, finished.stderr);
    assert_eq!(kv.client().ask(&["ECHO", "still here"]), bulk(b"still here"));
    kv.end();
}

#[test]
fn redis_py_of_debian_runs_against_kv() {
    redis_py("redis_py_of_debian_runs_against_kv", "0", false);
}

#[test]
fn the_newest_redis_py_runs_with_its_default_protocol() {
    redis_py("the_newest_redis_py_runs_with_its_default_protocol", "0", true);
}

#[test]
fn the_newest_redis_py_runs_with_resp2() {
    redis_py("the_newest_redis_py_runs_with_resp2", "2", true);
}

#[test]
fn the_newest_redis_py_runs_with_resp3() {
    redis_py("the_newest_redis_py_runs_with_resp3", "3", true);
}
