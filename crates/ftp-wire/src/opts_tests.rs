//! Option lists of real clients, and values that are refused.

use super::*;
use crate::facts::Fact;

fn parse(text: &str) -> Result<Opts, BadCommandKind> {
    Opts::parse(text.as_bytes()).map_err(BadCommand::kind)
}

fn retr(streams: Option<u32>, stripe_block: Option<u64>, markers: Option<u32>) -> Opts {
    Opts::Retr {
        parallelism: streams.map(Parallelism::of),
        stripe_block,
        markers,
    }
}

#[test]
fn reads_the_options_of_clients() {
    let mlsr = |facts, fail, follow| Opts::Mlsr {
        facts,
        fail,
        follow,
    };
    let two = FactSet::NONE.with(Fact::Type).with(Fact::Size);
    for (text, opts) in [
        ("RETR Parallelism=4,4,4;", retr(Some(4), None, None)),
        ("retr parallelism=4", retr(Some(4), None, None)),
        ("RETR Parallelism=1024,1;", retr(Some(1024), None, None)),
        (
            "RETR StripeLayout=Blocked;BlockSize=65536;Parallelism=2,2,2;",
            retr(Some(2), Some(65536), None),
        ),
        (
            "RETR StripeLayout=Blocked;",
            retr(None, Some(DEFAULT_STRIPE_BLOCK), None),
        ),
        ("RETR StripeLayout=Partitioned;", retr(None, Some(0), None)),
        ("RETR BlockSize=5;", retr(None, Some(5), None)),
        ("RETR Markers=0;", retr(None, None, Some(0))),
        ("PASV AllowDelayed=1;", Opts::Passive { delayed: true }),
        ("spas allowdelayed=0;", Opts::Passive { delayed: false }),
        ("EPSV AllowDelayed=1", Opts::Passive { delayed: true }),
        ("SPAS AllowDelayed=1", Opts::Passive { delayed: true }),
        (
            "SPAS Stripes=2;",
            Opts::Stripes {
                most: NonZero::new(2).unwrap(),
            },
        ),
        ("SPAS Command=retr;", Opts::SpasCommand { retrieve: true }),
        ("SPAS Command=STOR;", Opts::SpasCommand { retrieve: false }),
        ("MLST Type;Size;", Opts::Facts(two)),
        ("MLSD type;frob;size", Opts::Facts(two)),
        ("MLST", Opts::Facts(FactSet::NONE)),
        ("MLST ", Opts::Facts(FactSet::NONE)),
        ("MLSR OnError=Fail;", mlsr(None, Some(true), None)),
        (
            "MLSR TraverseSymbolicLinks=True;OnError=Continue;",
            mlsr(None, Some(false), Some(true)),
        ),
        (
            "MLSR Type;OnError=Fail;Size;",
            mlsr(Some(two), Some(true), None),
        ),
        ("MLSR ", mlsr(Some(FactSet::NONE), None, None)),
        ("CKSM markers=5;", Opts::Cksm { markers: 5 }),
        ("UTF8 ON", Opts::Utf8),
        ("UTF8 on", Opts::Utf8),
        ("utf8", Opts::Utf8),
    ] {
        assert_eq!(parse(text), Ok(opts), "{text}");
    }
}

#[test]
fn refuses_harmful_options_with_their_position() {
    for (text, kind) in [
        ("", MISSING),
        ("RETR", MISSING),
        ("RETR ;", MISSING),
        ("RETR Parallelism=0;", VALUE),
        ("RETR Parallelism=1025;", VALUE),
        ("RETR Parallelism=4,0;", VALUE),
        ("RETR Parallelism=4,4,0;", VALUE),
        ("RETR Parallelism=4,4,1025;", VALUE),
        ("RETR Parallelism=4,4,4,4;", VALUE),
        ("RETR Parallelism=4,4,4,4,4;", VALUE),
        ("RETR Parallelism=;", VALUE),
        ("RETR Parallelism=-1;", VALUE),
        ("RETR Parallelism=99999999999;", VALUE),
        ("RETR BlockSize=0;", VALUE),
        ("RETR StripeLayout=Diagonal;", VALUE),
        ("RETR WindowSize=5;", OPTION),
        ("STOR Eager=1;", BadCommandKind::UnknownOpts),
        ("PASV AllowDelayed=1;x=2;", OPTION),
        ("SPAS Stripes=2;x=2;", OPTION),
        ("SPAS Stripes=0;", VALUE),
        ("PASV Stripes=2;", OPTION),
        ("SPAS Command=LIST;", VALUE),
        ("SPAS Command=RETR;Stripes=2;", OPTION),
        ("MLSR OnError=Maybe;", VALUE),
        ("CKSM markers=x;", VALUE),
        ("CKSM", MISSING),
        ("HASH MD5", BadCommandKind::UnknownOpts),
        (
            "UTF8 OFF",
            BadCommandKind::UnsupportedArgument("option value"),
        ),
    ] {
        assert_eq!(parse(text), Err(kind), "{text}");
    }
    let bad = Opts::parse(b"RETR Markers=1; Parallelism=0;").unwrap_err();
    assert_eq!((bad.at(), bad.verb()), (15, Some("OPTS")));
}

#[test]
fn the_most_connections_are_the_third_number() {
    for (text, start, most) in [
        ("RETR Parallelism=4,4,16;", 4, 16),
        ("RETR Parallelism=4,1,16;", 4, 16),
        ("RETR Parallelism=4,16;", 4, 4),
        ("RETR Parallelism=4,1,2;", 4, 4),
    ] {
        let opts = Opts::Retr {
            parallelism: Some(Parallelism::up_to(start, most)),
            stripe_block: None,
            markers: None,
        };
        assert_eq!(parse(text), Ok(opts.clone()), "{text}");
        let wire = format!("RETR Parallelism={start},{start},{most};");
        assert_eq!(opts.to_string(), wire);
    }
}

#[test]
fn display_round_trips() {
    for opts in [
        retr(Some(3), Some(0), Some(7)),
        retr(Some(3), Some(9), None),
        retr(None, Some(1), None),
        Opts::Passive { delayed: false },
        Opts::Facts(FactSet::DEFAULT),
        Opts::Facts(FactSet::NONE),
        Opts::Mlsr {
            facts: Some(FactSet::ALL),
            fail: Some(false),
            follow: Some(true),
        },
        Opts::Mlsr {
            facts: None,
            fail: None,
            follow: Some(false),
        },
        Opts::Cksm { markers: 0 },
        Opts::Utf8,
    ] {
        assert_eq!(Opts::parse(opts.to_string().as_bytes()), Ok(opts));
    }
    let wire = retr(Some(4), None, None).to_string();
    assert_eq!(wire, "RETR Parallelism=4,4,4;", "what GCT's client sends");
}
