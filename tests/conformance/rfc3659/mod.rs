//! RFC 3659: MDTM, SIZE, REST in MODE S, TVFS, MLST and MLSD.

mod section_3;
mod section_4;
mod section_5;
mod section_6;
mod section_7;
