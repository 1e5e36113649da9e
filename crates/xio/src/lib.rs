//! Composable transports: every enabled driver behind one name, and stacks from strings.
