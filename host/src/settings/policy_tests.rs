//! What rules of a policy allow, and what they refuse.

use super::*;

fn rule(text: &str) -> Rule {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn ip(text: &str) -> SocketAddr {
    text.parse::<std::net::SocketAddr>().unwrap_or_else(|error| panic!("{text}: {error}")).into()
}

fn path(text: &str) -> SocketAddr {
    SocketAddr::path(Path::new(text)).expect("a path")
}

#[test]
fn rules_are_read_and_written() {
    for (text, shown) in [
        ("*", "*"),
        ("*:80", "*:80-80"),
        ("10.0.0.0/8:80-90", "10.0.0.0/8:80-90"),
        ("192.0.2.7:80", "192.0.2.7/32:80-80"),
        ("192.0.2.7", "192.0.2.7/32"),
        ("::1", "[::1]/128"),
        ("fd00::/8", "[fd00::]/8"),
        ("[fd00::]/8:1-2", "[fd00::]/8:1-2"),
        ("[::1]:80", "[::1]/128:80-80"),
        ("unix:*", "unix:/*"),
        ("unix:/x-none/a", "unix:/x-none/a"),
        ("unix:/x-none/*", "unix:/x-none/*"),
    ] {
        let rule = rule(text);
        assert_eq!(rule.to_string(), shown, "{text}");
        assert_eq!(shown.parse::<Rule>().expect("it can be read back"), rule);
    }
    for text in [
        "",
        "10.0.0.0/33",
        "10.0.0.0/8:90-80",
        "10.0.0.0:70000",
        "host:80",
        "[::1",
        "fd00::/129",
        "unix:a",
        "unix:/a*",
        // It would be shown as the one above.
        "unix:/a*/",
        "unix:/a\0b",
        "::ffff:1.2.3.4",
        "10.0.0.0/x",
        "*:",
        "1.2.3.4:-",
    ] {
        assert!(text.parse::<Rule>().is_err(), "{text}");
    }
}

#[test]
fn deny_wins_and_allow_excludes() {
    let policy = Policy::open()
        .allow_connect(rule("10.0.0.0/8:80-90"))
        .allow_connect(rule("[fd00::]/8"))
        .deny_connect(rule("10.9.0.0/16"));
    for (address, allowed) in [
        ("10.1.2.3:80", true),
        ("10.1.2.3:90", true),
        ("10.1.2.3:91", false),
        ("11.0.0.1:80", false),
        ("10.9.1.1:80", false),
        ("[fd12::1]:1", true),
        ("[fe80::1]:1", false),
        // IPv4 in the clothes of IPv6.
        ("[::ffff:10.1.2.3]:80", true),
        ("[::ffff:10.9.1.1]:80", false),
    ] {
        assert_eq!(policy.may_connect(&ip(address)), allowed, "{address}");
    }
    // Nothing was said about binding.
    assert!(policy.may_bind(&ip("11.0.0.1:80"), true));
    assert!(!Policy::closed().may_bind(&ip("127.0.0.1:80"), true));
    assert!(!Policy::closed().may_connect(&path("/x")));
    assert!(Policy::open().may_connect(&ip("1.2.3.4:5")));
}

#[test]
fn an_unspecified_address_is_this_machine_or_all_of_it() {
    let policy = Policy::open()
        .deny_connect(rule("127.0.0.0/8"))
        .deny_connect(rule("::1"))
        .deny_bind(rule("10.0.0.0/8:80"));
    for address in ["0.0.0.0:1", "[::]:1", "[::ffff:0.0.0.0]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(!policy.may_connect(&ip(address)), "{address}");
    }
    assert!(!policy.may_bind(&ip("0.0.0.0:80"), true), "it would take 10.0.0.0/8, too");
    assert!(policy.may_bind(&ip("0.0.0.0:81"), true));
    assert!(!policy.may_bind(&ip("[::]:80"), false), "it would take IPv4, too");
    assert!(policy.may_bind(&ip("[::]:80"), true));
    let policy = Policy::open().allow_bind(rule("127.0.0.0/8"));
    assert!(policy.may_bind(&ip("127.0.0.1:0"), true));
    assert!(!policy.may_bind(&ip("0.0.0.0:0"), true));
    assert!(!policy.may_bind(&ip("[::]:0"), false));
    assert!(Policy::open().allow_bind(rule("0.0.0.0/0")).may_bind(&ip("0.0.0.0:0"), true));
    assert!(Policy::open().allow_bind(rule("*:0")).may_bind(&ip("[::]:0"), false));
}

#[test]
fn paths_are_what_they_lead_to() {
    let folder = std::env::temp_dir().join(format!("gpunet-policy-{}", std::process::id()));
    let (inside, outside) = (folder.join("in"), folder.join("out"));
    std::fs::create_dir_all(&inside).expect("a folder");
    std::fs::create_dir_all(&outside).expect("a folder");
    std::os::unix::fs::symlink(&outside, inside.join("link")).expect("a link");
    let text = |path: &Path| path.to_str().expect("plain letters").to_owned();
    let rule_in = rule(&format!("unix:{}/*", text(&inside)));
    let policy = Policy::open().allow_connect(rule_in.clone()).deny_bind(rule_in);
    let (good, bad) = (inside.join("a"), outside.join("a"));
    let (link, dots) = (inside.join("link/a"), inside.join("../out/a"));
    assert!(policy.may_connect(&path(&text(&good))));
    for bad in [&bad, &link, &dots, &inside] {
        assert!(!policy.may_connect(&path(&text(bad))), "{}", bad.display());
    }
    assert!(!policy.may_bind(&path(&text(&good)), true));
    assert!(!policy.may_bind(&path(&text(&outside.join("../in/a"))), true));
    assert!(policy.may_bind(&path(&text(&bad)), true));
    std::fs::remove_dir_all(&folder).expect("it is there");
}
