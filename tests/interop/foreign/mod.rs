//! Clients and servers of plain FTP that people use beside ours, and what they once stumbled over.

mod aria2;
mod commons_net;
mod python;
mod rclone;
mod servers;
