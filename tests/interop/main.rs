//! Our programs against the Globus programs, curl and lftp.
