//! Certificates that are missing, of another cluster, of another role or expired.
