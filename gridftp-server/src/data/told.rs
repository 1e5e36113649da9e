//! Uploads whose sender tells the digest of the whole file.

use ftp_wire::command::Tag;
use ftp_wire::receipt::Extent;
use gridftp_data::Earlier;
use gridftp_dsi::{ChecksumAlgorithm, Dsi, Finish, Sink, WriteModel};

use super::Context;
use super::store::{Store, must_be_here};
use crate::error::Error;

impl Store {
    /// Counts the bytes that are held in the digest of a tagged transfer; says whether the file is to
    /// have the digest that the sender tells.
    pub(crate) async fn go_on_digest<D: Dsi, S: Sink>(
        &self,
        context: &mut Context<'_, D>,
        sink: &S,
    ) -> Result<bool, Error> {
        if !self.is_told(context.tag) {
            return Ok(false);
        }
        // Bytes of parts that are held and not named come again, and are not stored again.
        let is_in_parts = matches!(sink.order(), WriteModel::Parts(_));
        let names_all = !is_in_parts || sink.held() == self.held;
        let earlier = async {
            match names_all {
                true => Ok::<_, Error>(Earlier::of_sink(sink, &self.held).await),
                false => Ok(None),
            }
        };
        let earlier = context.reporter.run_quietly(earlier).await?;
        let (records, resumes) = (earlier.is_some(), !self.held.is_empty());
        let is_known = earlier.as_ref().is_some_and(Earlier::is_known);
        if records || resumes {
            context.watch.go_on(earlier);
        }
        if !is_known && self.may_spare_check(context.tag) {
            // The whole file has to be read then, before it is published; with that some hold less.
            sink.will_check(ChecksumAlgorithm::Blake3);
            must_be_here(&self.held, &sink.held(), 0)?;
        }
        Ok(records || resumes)
    }

    /// Says whether the sender of a transfer with this tag tells the digest of the file.
    pub(super) fn is_told(&self, tag: Option<Tag>) -> bool {
        self.into.is_whole() && tag.is_some_and(|tag| tag.extent == Extent::Whole)
    }

    /// Says whether the digest of a transfer with this tag, which goes on with held bytes, may spare the
    /// storage the check of one: it is known where the values of those bytes are.
    pub(super) fn may_spare_check(&self, tag: Option<Tag>) -> bool {
        let is_blake3 = |name: &str| {
            let algorithm = ChecksumAlgorithm::from_name(name.as_bytes());
            algorithm == Some(ChecksumAlgorithm::Blake3)
        };
        let announced = self.checksum.as_ref();
        !self.held.is_empty()
            && self.is_told(tag)
            && announced.is_none_or(|(name, _)| is_blake3(name))
    }

    /// Spares the file a second reading where its digest on arrival is `here`, and the announced one.
    /// Where there is none, the one that the sender `told` has to be its digest.
    ///
    /// # Errors
    /// [`Error::Unproven`] for bytes of an earlier upload without any digest to compare them with, unless
    /// they are in place, where no error takes them back.
    pub(super) fn prove(
        &self,
        (here, told): (Option<String>, Option<String>),
        finish: &mut Finish,
    ) -> Result<(), Error> {
        let needs_digest = !self.held.is_empty() && !self.rules.in_place;
        if finish.checksum.is_none() && told.is_none() && needs_digest {
            let held = self.held.total();
            return Err(Error::Unproven { held });
        }
        if here.is_none() && finish.checksum.is_none() {
            finish.checksum = told.map(|told| (ChecksumAlgorithm::Blake3, told));
        }
        finish.checksum.take_if(|(algorithm, digest)| {
            let is_equal = |here: &String| here.eq_ignore_ascii_case(digest);
            *algorithm == ChecksumAlgorithm::Blake3 && here.as_ref().is_some_and(is_equal)
        });
        Ok(())
    }
}
