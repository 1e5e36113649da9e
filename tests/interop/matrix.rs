//! One test for each client, direction and case.

use crate::bed::{Client, Way, copy, copy_tree};
use crate::cases;

macro_rules! cases {
    ($run:ident, $client:expr, $way:expr; $($case:ident)*) => {
        $(
            #[test]
            fn $case() -> anyhow::Result<()> {
                $run($client, $way, cases::named(stringify!($case)))
            }
        )*
    };
}

macro_rules! ways {
    ($client:expr) => {
        use super::*;

        mod get {
            use super::*;
            cases!(copy, $client, Way::Get; mode_s p_1 p_4 fast_many pipelined_many concurrent_many stream_many
                partial_s partial_p_4 empty_s empty_p_4 one_byte_s one_byte_p_4 over_4_gib_s over_4_gib_p_4
                blanks_s blanks_p_4);
        }
        mod put {
            use super::*;
            cases!(copy, $client, Way::Put; mode_s p_1 p_4 fast_many pipelined_many concurrent_many stream_many
                partial_s partial_p_4 empty_s empty_p_4 one_byte_s one_byte_p_4 over_4_gib_s over_4_gib_p_4
                blanks_s blanks_p_4);
        }
        mod third_party_from_ours {
            use super::*;
            cases!(copy, $client, Way::FromOurs; mode_s p_1 p_4 fast_many pipelined_many concurrent_many stream_many
                partial_s partial_p_4 empty_s empty_p_4 one_byte_s one_byte_p_4 over_4_gib_p_4 blanks_s blanks_p_4);
        }
        mod third_party_to_ours {
            use super::*;
            cases!(copy, $client, Way::ToOurs; mode_s p_1 p_4 fast_many pipelined_many concurrent_many stream_many
                partial_s partial_p_4 empty_s empty_p_4 one_byte_s one_byte_p_4 over_4_gib_p_4 blanks_s blanks_p_4);
        }
        mod tree_get {
            use super::*;
            cases!(copy_tree, $client, Way::Get; mode_s p_1 p_4 fast_many pipelined_many concurrent_many);
        }
        mod tree_put {
            use super::*;
            cases!(copy_tree, $client, Way::Put; mode_s p_1 p_4 fast_many pipelined_many concurrent_many);
        }
        mod tree_from_ours {
            use super::*;
            cases!(copy_tree, $client, Way::FromOurs; mode_s p_1 p_4 fast_many pipelined_many concurrent_many);
        }
        mod tree_to_ours {
            use super::*;
            cases!(copy_tree, $client, Way::ToOurs; mode_s p_1 p_4 fast_many pipelined_many concurrent_many);
        }
    };
}

/// `globus-url-copy` against our server.
mod globus_url_copy {
    ways!(Client::Guc);
}

/// `gridftp-cp` against the Globus server.
mod gridftp_cp {
    ways!(Client::Cp);
}
