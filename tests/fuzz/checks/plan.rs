//! Stack and contact strings: bounded, and what parses means the same when written again.

use xio_core::{Plan, Target};

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(plan) = text.parse::<Plan>() {
        assert!(text.len() <= 4096 && plan.entries().len() <= 16);
        let again = plan.to_string();
        // Written again it may be longer, since more of it is encoded.
        if again.len() <= 4096 {
            assert_eq!(again.parse::<Plan>().unwrap(), plan);
        }
    }
    if let Ok(target) = text.parse::<Target>() {
        assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        if let Some(secret) = target.password.as_deref().filter(|p| p.len() > 3) {
            let mut public = target.clone();
            public.password = Some("***".to_owned());
            assert_eq!(format!("{target:?}"), public.to_string(), "{secret} is shown");
        }
    }
}
