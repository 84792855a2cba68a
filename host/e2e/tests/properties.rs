//! Properties of what host and device agree on: addresses, messages, handles, progress.

use gpunet_device::abi::bits::Progress;
use gpunet_device::abi::descriptor::{Inboxes, Kind, RingLocation, SocketDescriptor, Status};
use gpunet_device::abi::message::{MAX_TEXT, Operation, Reply, Request};
use gpunet_device::abi::option::SocketOption;
use gpunet_device::{Domain, Handle, SocketAddr};
use proptest::prelude::*;

fn addresses() -> impl Strategy<Value = SocketAddr> {
    let path = prop::collection::vec(1..=255_u8, 0..=107);
    prop_oneof![
        any::<([u8; 4], u16)>().prop_map(|(ip, port)| SocketAddr::v4(ip, port)),
        any::<([u8; 16], u16, u32, u32)>()
            .prop_map(|(ip, port, flow, scope)| SocketAddr::v6(ip, port, flow, scope)),
        path.prop_map(|path| SocketAddr::unix(&path).expect("short, without a zero")),
    ]
}

fn locations() -> impl Strategy<Value = RingLocation> {
    (0..2_u8, 0..1_u64 << 50, 12..30_u32, 0..1_u64 << 50).prop_map(
        |(region, offset, order, base)| RingLocation { region, offset, capacity: 1 << order, base },
    )
}

proptest! {
    #[test]
    fn addresses_cross_as_they_are(address in addresses()) {
        prop_assert_eq!(SocketAddr::from_words(&address.to_words()), address);
        match address.domain() {
            Some(Domain::Unix) => {
                let path = address.to_path().expect("a path");
                prop_assert_eq!(SocketAddr::path(&path), Some(address));
                prop_assert_eq!(address.to_ip(), None);
            }
            Some(_) => {
                let ip = address.to_ip().expect("an IP address");
                prop_assert_eq!(SocketAddr::from(ip), address);
                prop_assert_eq!(ip.port(), address.port());
                prop_assert_eq!(address.to_path(), None);
            }
            None => prop_assert!(false, "every address has a domain"),
        }
    }

    /// A kernel may write anything: it is taken apart without a panic, and means nothing new.
    #[test]
    fn any_words_are_an_address_or_none(words in any::<[u64; 14]>()) {
        let address = SocketAddr::from_words(&words);
        prop_assert!(address.to_ip().is_none() || address.to_path().is_none());
        if let Some(path) = address.to_path() {
            prop_assert!(path.as_os_str().len() <= 107);
        }
        let _ = address.to_string();
    }

    #[test]
    fn requests_cross_as_they_are(
        operation in 1..=14_u32,
        launch in any::<u32>(),
        handle in any::<u64>(),
        numbers in any::<[u64; 4]>(),
        address in addresses(),
    ) {
        let operation = Operation::from_number(operation).expect("one of them");
        let request = Request::new(operation, launch, Handle(handle), numbers);
        let request = Request(request.with_address(&address).0);
        prop_assert_eq!(request.operation(), Some(operation));
        prop_assert_eq!((request.launch(), request.handle()), (launch, Handle(handle)));
        prop_assert_eq!([0, 1, 2, 3].map(|at| request.number(at)), numbers);
        prop_assert_eq!(request.address(), address);
    }

    #[test]
    fn text_crosses_as_it_is(text in prop::collection::vec(any::<u8>(), 0..=MAX_TEXT)) {
        let mut request = Request::new(Operation::Print, 0, Handle::NONE, [0; 4]);
        for (at, byte) in text.iter().enumerate() {
            request.set_text_byte(at, *byte);
        }
        let back: Vec<u8> = (0..text.len()).map(|at| request.text_byte(at)).collect();
        prop_assert_eq!(back, text);
        prop_assert_eq!(request.operation(), Some(Operation::Print));
    }

    #[test]
    fn replies_cross_as_they_are(
        result in any::<i64>(),
        number in any::<u64>(),
        address in addresses(),
    ) {
        let reply = Reply(Reply::new(result, number, &address).0);
        prop_assert_eq!((reply.result(), reply.number(), reply.address()), (result, number, address));
    }

    #[test]
    fn handles_keep_their_parts(
        shard in 0..Handle::MAX_SHARDS,
        slot in 0..Handle::MAX_SLOTS,
        generation in 1..=u32::MAX,
    ) {
        let handle = Handle::new(shard, slot, generation);
        prop_assert_eq!(
            (handle.shard(), handle.slot(), handle.generation()),
            (shard, slot, generation)
        );
        prop_assert!(handle.is_well_formed());
        prop_assert!(handle.0 as i64 > 0, "never taken for an error");
    }

    #[test]
    fn descriptors_cross_as_they_are(
        generation in 1..=u32::MAX,
        kind in 1..=4_u8,
        receive in locations(),
        send in locations(),
        timeout_ns in any::<u64>(),
    ) {
        let kind = Kind::from_number(kind).expect("one of them");
        let inboxes = (generation % 2 == 1).then_some(Inboxes { own: generation, peer: 7, one_gpu: generation % 4 == 1 });
        let change = generation as u8 & 15;
        let descriptor = SocketDescriptor { generation, kind, change, receive, send, timeout_ns, inboxes };
        prop_assert_eq!(SocketDescriptor::from_words(&descriptor.to_words()), Some(descriptor));
    }

    #[test]
    fn any_words_are_a_descriptor_or_none(words in any::<[u64; 8]>()) {
        let _ = SocketDescriptor::from_words(&words);
    }

    #[test]
    fn progress_keeps_count_and_ending(count in 0..1_u64 << 56, ended: bool, failed: bool) {
        let ended = ended || failed;
        let flags = if ended { Progress::ENDED } else { 0 }
            | if failed { Progress::FAILED } else { 0 };
        let progress = Progress::new(count, flags);
        prop_assert_eq!(progress.count(), count);
        prop_assert_eq!((progress.is_over(), progress.has_failed()), (ended, failed));
    }

    #[test]
    fn status_keeps_state_and_error(errno in 0..4096_i32) {
        for state in [Status::IDLE, Status::CONNECTING, Status::CONNECTED, Status::FAILED] {
            let status = Status::new(state, errno);
            prop_assert_eq!((status.state(), status.errno()), (state, errno));
        }
    }

    #[test]
    fn only_numbers_of_options_are_options(number in 0..64_u32) {
        let option = SocketOption::from_number(number);
        prop_assert_eq!(option.map(|option| option as u32), option.map(|_| number));
        prop_assert_eq!(option.is_some(), (1..=SocketOption::ALL.len() as u32).contains(&number));
    }
}
