//! Strings against the registry: what is refused, and in which words.

use xio_core::{ErrorKind, Passive as _, Target, Transport as _};

fn refused(text: &str) -> (ErrorKind, String) {
    let error = xio::registry().stack(text).expect_err(text);
    (error.kind(), error.to_string())
}

#[test]
fn an_unknown_driver_lists_the_known_ones() {
    let registry = xio::registry();
    let known: Vec<_> = registry.drivers().map(|driver| driver.name()).collect();
    assert!(known.is_sorted() && known.contains(&"tcp"), "{known:?}");
    let (kind, text) = refused("tcp,bogus");
    assert_eq!(kind, ErrorKind::UnknownDriver);
    assert_eq!(
        text,
        format!(
            "stack: plan: no driver `bogus`; available drivers: {}",
            known.join(", ")
        )
    );
}

#[test]
fn an_option_error_names_driver_option_and_what_it_accepts() {
    let (kind, text) = refused("tcp:bogus=1,count");
    assert_eq!(kind, ErrorKind::BadOption);
    assert!(
        text.starts_with("tcp: plan: no option `bogus`; accepted are backlog, cc, "),
        "{text}"
    );
    let (kind, text) = refused("tcp:sndbuf=much");
    assert_eq!(kind, ErrorKind::BadOption);
    assert_eq!(
        text,
        "tcp: plan: option sndbuf does not accept \"much\"; it takes bytes, as 4M"
    );
    let (_, text) = refused("tcp,count:x=1");
    assert_eq!(text, "count: plan: no option `x`; this driver takes none");
}

#[test]
fn every_option_of_every_driver_is_known_to_its_reader() {
    // A value that no kind of option takes shows whether the key was found.
    for driver in crate::everything().drivers() {
        for option in driver.options() {
            let below = if driver.is_base() { "" } else { "mem," };
            let text = format!("{below}{}:{}=%01", driver.name(), option.name);
            let error = crate::everything()
                .stack(&text)
                .expect_err(&text)
                .to_string();
            assert!(
                error.contains(&format!("option {} does not accept", option.name)),
                "{error}"
            );
            assert!(error.contains(option.takes), "{error}");
            assert!(!option.about.is_empty());
        }
    }
}

#[test]
fn layers_must_fit() {
    let (kind, text) = refused("count");
    assert_eq!(kind, ErrorKind::BadPlan);
    assert!(
        text.ends_with("`count` needs a driver below it, such as `tcp`"),
        "{text}"
    );
    let (_, text) = refused("tcp,count,tcp");
    assert!(
        text.ends_with("`tcp` stands at the bottom of a stack, not on `count`"),
        "{text}"
    );
    let (_, text) = refused("timeout:all=3");
    assert!(
        text.ends_with("`timeout` needs a driver below it, such as `tcp`"),
        "{text}"
    );
}

#[test]
fn a_restricted_registry_knows_nothing_else() {
    let small = xio::registry().restrict(&["tcp", "count", "popen"]);
    small.stack("tcp,count").unwrap();
    let error = small.stack("file").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownDriver);
    assert!(
        error.to_string().ends_with("available drivers: count, tcp"),
        "{error}"
    );
    let none = xio::registry().restrict::<&str>(&[]);
    assert!(
        none.stack("tcp")
            .unwrap_err()
            .to_string()
            .ends_with("available drivers: none")
    );
}

#[tokio::test]
async fn a_file_cannot_listen_and_says_so() {
    let stack = xio::registry().stack("file,count").unwrap();
    assert!(!stack.can_listen());
    let error = stack.listen(&crate::loopback()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().starts_with("file,count: listen: "),
        "{error}"
    );
}

#[tokio::test]
async fn a_target_without_a_host_is_no_place_for_tcp() {
    let stack = xio::registry().stack("tcp").unwrap();
    for (target, part) in [
        ("/etc/passwd", "names no host"),
        ("tcp://localhost", "names no port"),
    ] {
        let target: Target = target.parse().unwrap();
        let error = stack.connect(&target).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadTarget);
        assert!(error.to_string().contains(part), "{error}");
    }
}
