//! The backend that stores nothing, through the applicable part of the conformance suite.

#[tokio::test]
async fn null_keeps_the_contract() {
    let report = xio_testkit::dsi_suite::run(&gridftp_dsi_null::Null::new()).await;
    assert_eq!(
        report.passed,
        [
            "writing_requires_permission",
            "discarded_uploads_can_be_shared",
            "discarded_bytes_are_counted"
        ]
    );
}
