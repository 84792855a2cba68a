//! The harness itself can fail: wrong bytes, wrong results and wrong times are seen.

use std::io::Write as _;
use std::time::Duration;

use gpunet_e2e::{Folder, Job, Peer, Script, Space, net, peer};
use gpunet_e2e_kernels::op::WRONG_BYTES;

#[test]
fn one_wrong_byte_is_seen() {
    let net = net();
    for wrong in [0, 57, 99] {
        let peer = Peer::serve(move |mut stream| {
            let mut bytes = peer::bytes(gpunet_e2e::script::SEED, 0, 100);
            bytes[wrong] ^= 1;
            stream.write_all(&bytes).expect("the kernel receives");
        });
        for who in [1, 32, 33] {
            let mut script = Script::new();
            script.stream(0, peer.address).peek(0, 100, 0).expect(WRONG_BYTES);
            script.recv(0, 100).expect(WRONG_BYTES);
            Job::blocks(who).script(&script).run(&net);
            peer.result();
        }
        let mut script = Script::new();
        script.stream(0, peer.address).recv_all(0, 100, 10).expect(WRONG_BYTES);
        Job::blocks(32).script(&script).run(&net);
        let mut script = Script::new();
        script.stream(0, peer.address).peek(0, 100, 0).expect(WRONG_BYTES);
        script.recv(0, 100).space(Space::Local).expect(WRONG_BYTES);
        Job::threads(1).script(&script).run(&net);
    }
}

#[test]
fn wrong_results_and_times_are_seen() {
    let net = net();
    let ms = Duration::from_millis(1);
    let mut script = Script::new();
    script.sleep(ms).stream(0, peer::echo_server()).expect(5).close(0);
    let (ended, finished) = Job::blocks(32).script(&script).start(&net).end();
    ended.expect("the kernel ends");
    let wrong = finished.wrong();
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].contains("op 1 of 3: Some(StreamConnect)"), "{wrong:?}");
    // A script stops where it went wrong.
    assert_eq!(finished.result(0, 2), gpunet_e2e_kernels::op::NOT_RUN);
    // Long, so that even a busy machine has not lost as much meanwhile.
    let mut script = Script::new();
    script.sleep(800 * ms).takes(ms..2 * ms);
    let (ended, finished) = Job::blocks(32).script(&script).start(&net).end();
    ended.expect("the kernel ends");
    assert_eq!(finished.wrong().len(), 1);
    assert!(finished.wrong()[0].contains("took"), "{:?}", finished.wrong());
}

#[test]
fn nothing_is_left_of_a_peer_at_a_path() {
    let folder = Folder::new("left");
    let peer = Peer::serve_unix(&folder.path("peer"), drop);
    let mut script = Script::new();
    script.stream(0, peer.address).close(0);
    Job::blocks(32).script(&script).run(&net());
    peer.result();
    drop((peer, folder));
    let mine = format!("gpunet-e2e-{}-", std::process::id());
    let left = std::fs::read_dir(std::env::temp_dir()).expect("temporary files").flatten();
    let left = left.map(|entry| entry.file_name().into_string().expect("a name"));
    assert_eq!(left.filter(|name| name.starts_with(&mine)).collect::<Vec<_>>(), [""; 0]);
}
