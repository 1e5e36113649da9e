//! Plain FTP clients and servers, with cases that once failed.

mod aria2;
mod commons_net;
mod python;
mod rclone;
mod servers;
