//! Stack and contact strings are bounded and round-trip.

use xio_core::{Plan, Target};

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(plan) = text.parse::<Plan>() {
        assert!(text.len() <= 4096 && plan.entries().len() <= 16);
        let again = plan.to_string();
        // The printed form may be longer, since more characters are encoded.
        if again.len() <= 4096 {
            assert_eq!(again.parse::<Plan>().unwrap(), plan);
        }
    }
    if let Ok(target) = text.parse::<Target>() {
        // A host alone is printed with a scheme, so the texts are compared and not the values.
        let again = target.to_string();
        assert_eq!(again.parse::<Target>().unwrap().to_string(), again);
        if let Some(secret) = target.password.as_deref().filter(|p| p.len() > 3) {
            let mut public = target.clone();
            public.password = Some("***".to_owned());
            assert_eq!(
                format!("{target:?}"),
                public.to_string(),
                "{secret} is shown"
            );
        }
    }
}
