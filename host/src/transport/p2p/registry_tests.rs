//! How listeners are registered and found.

use super::*;

fn registry(name: &str) -> FolderRegistry {
    let folder = std::env::temp_dir().join(format!("gpunet-test-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let made = own_folder(&folder, rustix::process::geteuid().as_raw()).unwrap();
    FolderRegistry { folder, made, namespace: 1 }
}

fn at(text: &str) -> SocketAddr {
    text.parse::<std::net::SocketAddr>().unwrap().into()
}

#[test]
fn a_listener_is_found_under_each_of_its_addresses() {
    let registry = registry("found");
    let _any = registry.listen(&at("0.0.0.0:70"), false, false).unwrap();
    assert!(registry.call(&at("127.0.0.1:70")).unwrap().is_some());
    assert!(registry.call(&at("127.0.0.9:70")).unwrap().is_some());
    assert!(registry.call(&at("127.0.0.1:71")).unwrap().is_none());
    assert!(registry.call(&at("[::1]:70")).unwrap().is_none());
    assert!(registry.call(&at("192.0.2.1:70")).unwrap().is_none(), "another machine's");
    assert!(registry.call(&at("255.255.255.255:70")).unwrap().is_none(), "everybody's");
    let _only = registry.listen(&at("[::]:72"), true, false).unwrap();
    assert!(registry.call(&at("127.0.0.1:72")).unwrap().is_none());
    let _both = registry.listen(&at("[::]:73"), false, false).unwrap();
    assert!(registry.call(&at("127.0.0.1:73")).unwrap().is_some());
    fs::remove_dir_all(&registry.folder).unwrap();
}

#[test]
fn a_name_is_taken_once_and_goes_with_its_listener() {
    let registry = registry("taken");
    let address = at("127.0.0.1:70");
    let registration = registry.listen(&address, false, false).unwrap();
    assert_eq!(registry.listen(&address, false, false).err(), Some(Errno::EADDRINUSE));
    assert!(registry.call(&address).unwrap().is_some());
    assert!(registration.next().unwrap().is_some());
    assert!(registration.next().unwrap().is_none());
    drop(registration);
    assert!(registry.call(&address).unwrap().is_none());
    assert_eq!(fs::read_dir(&registry.folder).unwrap().count(), 0);
    // What a killed one leaves behind.
    let left = registry.register(&address, false, false).unwrap();
    let FolderEntry { socket, _path, .. } = left;
    std::mem::forget(_path);
    drop(socket);
    assert!(registry.call(&address).unwrap().is_none());
    let again = registry.register(&address, false, false).unwrap();
    // A probe is no call.
    registry.sweep();
    assert!(!is_dead(&registry.path(&listener_name(&address, false).unwrap())));
    assert!(again.next().unwrap().is_none());
    // And what nobody asks for goes when the next net looks.
    let FolderEntry { socket, _path, .. } = again;
    std::mem::forget(_path);
    drop(socket);
    fs::write(registry.folder.join("a file"), "").unwrap();
    registry.sweep();
    assert_eq!(fs::read_dir(&registry.folder).unwrap().count(), 1, "the file stays");
    fs::remove_dir_all(&registry.folder).unwrap();
}

#[test]
fn the_folder_goes_with_who_made_it_and_comes_back_for_others() {
    let maker = registry("made");
    let folder = maker.folder.clone();
    let other = FolderRegistry { folder: folder.clone(), made: false, namespace: 1 };
    let address = at("127.0.0.1:70");
    let registration = other.listen(&address, false, false).unwrap();
    drop(maker);
    assert!(other.call(&address).unwrap().is_some(), "a listener keeps it");
    drop(registration);
    drop(FolderRegistry { folder: folder.clone(), made: true, namespace: 1 });
    assert!(!folder.exists());
    assert!(other.call(&address).unwrap().is_none());
    let _again = other.listen(&address, false, false).unwrap();
    assert!(other.call(&address).unwrap().is_some());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_folder_that_others_may_use_is_not_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let registry = registry("trusted");
    let user = rustix::process::geteuid().as_raw();
    assert!(own_folder(&registry.folder, user + 1).is_err());
    fs::set_permissions(&registry.folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(own_folder(&registry.folder, user).unwrap_err().contains("755"));
    let link = registry.folder.with_extension("link");
    std::os::unix::fs::symlink(&registry.folder, &link).unwrap();
    assert!(own_folder(&link, user).is_err());
    fs::remove_file(&link).unwrap();
    fs::remove_dir_all(&registry.folder).unwrap();
}

#[test]
fn an_address_of_ipv4_is_the_same_mapped() {
    let registry = registry("mapped");
    let mapped = at("[::ffff:127.0.0.1]:70");
    assert!(registry.call(&mapped).unwrap().is_none());
    for listener in ["127.0.0.1:70", "0.0.0.0:70", "[::]:70", "[::ffff:127.0.0.1]:70"] {
        let _registration = registry.listen(&at(listener), false, false).unwrap();
        assert!(registry.call(&mapped).unwrap().is_some(), "{listener}");
        assert!(registry.call(&at("127.0.0.1:70")).unwrap().is_some(), "{listener}");
    }
    let _only = registry.listen(&at("[::]:70"), true, false).unwrap();
    assert!(registry.call(&mapped).unwrap().is_none(), "a listener of IPv6 alone");
    fs::remove_dir_all(&registry.folder).unwrap();
}

#[test]
fn listeners_that_share_an_address_get_calls_in_turn() {
    let registry = registry("shared");
    let address = at("127.0.0.1:70");
    let listeners = [(); 3].map(|()| registry.listen(&address, false, true).unwrap());
    for _ in 0..30 {
        assert!(registry.call(&address).unwrap().is_some());
    }
    let taken = listeners.each_ref().map(|listener| {
        let mut calls = 0;
        while listener.next().unwrap().is_some() {
            calls += 1;
        }
        calls
    });
    assert_eq!(taken.iter().sum::<i32>(), 30);
    // Other tests of this process call, too.
    assert!(taken.iter().all(|calls| *calls >= 2), "{taken:?}");
    let [first, ..] = listeners;
    drop(first);
    assert!(registry.call(&address).unwrap().is_some());
    assert!(registry.call(&at("127.0.0.2:70")).unwrap().is_none());
    fs::remove_dir_all(&registry.folder).unwrap();
}

#[test]
fn what_killed_ones_that_share_leave_behind_goes() {
    let registry = registry("shared-killed");
    let address = at("127.0.0.1:70");
    let killed = registry.register(&address, false, true).unwrap();
    let FolderEntry { socket, _path, _folder, .. } = killed;
    std::mem::forget((_path, _folder));
    drop(socket);
    assert!(registry.call(&address).unwrap().is_none());
    let next = registry.listen(&address, false, true).unwrap();
    assert!(registry.call(&address).unwrap().is_some());
    drop(next);
    assert_eq!(fs::read_dir(&registry.folder).unwrap().count(), 0);
    let FolderEntry { socket, _path, _folder, .. } =
        registry.register(&address, false, true).unwrap();
    std::mem::forget((_path, _folder));
    drop(socket);
    registry.sweep();
    assert_eq!(fs::read_dir(&registry.folder).unwrap().count(), 0);
    fs::remove_dir_all(&registry.folder).unwrap();
}
