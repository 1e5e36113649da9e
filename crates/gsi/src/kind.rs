//! Classification of certificates: authority, end entity, or proxy with its format and rights.

use std::net::IpAddr;

use x509_parser::asn1_rs::{FromDer, Tag};
use x509_parser::extensions::{BasicConstraints, GeneralName, SubjectAlternativeName};

use crate::certificate::{BadCertificate, Extension};
use crate::der::{self, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE};
use crate::name::Name;
use crate::oid;

/// The place of a certificate in a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// An authority (CA).
    Authority {
        /// The number of authorities allowed below it; any if `None`.
        path_length: Option<u32>,
    },
    /// A user, a host or a service.
    EndEntity,
    /// A proxy of an end entity or of another proxy.
    Proxy(ProxyInfo),
}

/// The facts about a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyInfo {
    /// The generation of the format.
    pub format: ProxyFormat,
    /// The rights that the issuer passed on.
    pub rights: ProxyRights,
    /// The number of proxies allowed below it; any if `None`.
    pub path_length: Option<u32>,
    /// The policy language, in dotted form; empty for a legacy proxy.
    pub language: String,
    /// Whether a policy in that language restricts the proxy.
    pub has_policy: bool,
}

/// The generation of a proxy's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyFormat {
    /// RFC 3820.
    Rfc,
    /// The draft before it (GSI-3).
    Draft,
    /// A name that ends in `CN=proxy` or `CN=limited proxy` (GSI-2).
    Legacy,
}

/// The rights that a proxy has from its issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyRights {
    /// All of them.
    Full,
    /// All but the start of jobs: files may be read and written.
    Limited,
    /// None: the proxy is an identity of its own.
    Independent,
    /// Those of a policy in a language that is not known here.
    Restricted,
}

/// The parts of a certificate that its classification needs.
pub(crate) struct Fields<'a> {
    pub(crate) subject: &'a Name,
    pub(crate) extensions: &'a [Extension],
}

impl<'a> Fields<'a> {
    fn find(&self, oid: &[u8]) -> Option<&'a Extension> {
        self.extensions
            .iter()
            .find(|extension| extension.oid == oid)
    }

    fn malformed(&self, oid: &[u8]) -> BadCertificate {
        BadCertificate::Extension {
            subject: self.subject.clone(),
            oid: oid::dotted(oid),
        }
    }

    fn contradiction(&self, fact: &'static str) -> BadCertificate {
        BadCertificate::Proxy {
            subject: self.subject.clone(),
            fact,
        }
    }

    /// Parses the whole value of an extension.
    pub(crate) fn get<T: FromDer<'a, x509_parser::error::X509Error>>(
        &self,
        oid: &[u8],
    ) -> Result<Option<T>, BadCertificate> {
        let Some(extension) = self.find(oid) else {
            return Ok(None);
        };
        match T::from_der(&extension.value) {
            Ok(([], value)) => Ok(Some(value)),
            Ok(_) | Err(_) => Err(self.malformed(oid)),
        }
    }

    /// Classifies the certificate: authority, else proxy by name, else proxy by extension.
    pub(crate) fn kind(&self, issuer: &Name) -> Result<Kind, BadCertificate> {
        let basic = self.get::<BasicConstraints>(oid::BASIC_CONSTRAINTS)?;
        let rfc = self.find(oid::PROXY_CERT_INFO);
        let draft = self.find(oid::PROXY_CERT_INFO_DRAFT);
        if let Some(basic) = basic.filter(|basic| basic.ca) {
            if rfc.is_some() || draft.is_some() {
                return Err(self.contradiction("an authority carries ProxyCertInfo"));
            }
            return Ok(Kind::Authority {
                path_length: basic.path_len_constraint,
            });
        }
        let legacy = match self.subject.last_common_name() {
            Some(b"proxy") => Some(ProxyRights::Full),
            Some(b"limited proxy") => Some(ProxyRights::Limited),
            _ => None,
        };
        let info = match (legacy, rfc, draft) {
            (None, None, None) => return Ok(Kind::EndEntity),
            (Some(rights), None, None) => ProxyInfo {
                format: ProxyFormat::Legacy,
                rights,
                path_length: None,
                language: String::new(),
                has_policy: false,
            },
            (None, Some(extension), None) => self.info(ProxyFormat::Rfc, extension)?,
            (None, None, Some(extension)) => self.info(ProxyFormat::Draft, extension)?,
            _ => return Err(self.contradiction("the proxy is of two formats at once")),
        };
        if !self.subject.extends(issuer) {
            return Err(self.contradiction(
                "the name of the proxy is not the name of its issuer and one more CN",
            ));
        }
        // RFC 3820 §3.2 and §3.6.
        let named = [oid::SUBJECT_ALT_NAME, oid::ISSUER_ALT_NAME];
        if named.iter().any(|oid| self.find(oid).is_some()) {
            return Err(self.contradiction("the proxy carries an alternative name"));
        }
        Ok(Kind::Proxy(info))
    }

    /// Parses `ProxyCertInfo`, whose parts stand in another order in the draft.
    fn info(
        &self,
        format: ProxyFormat,
        extension: &Extension,
    ) -> Result<ProxyInfo, BadCertificate> {
        // RFC 3820 §3.8.
        if !extension.critical {
            return Err(self.contradiction("ProxyCertInfo is not critical"));
        }
        proxy_cert_info(format, &extension.value).ok_or_else(|| self.malformed(&extension.oid))
    }

    /// The host names and addresses among the alternative names.
    pub(crate) fn alternative_names(&self) -> Result<(Vec<String>, Vec<IpAddr>), BadCertificate> {
        let (mut hosts, mut addresses) = (Vec::new(), Vec::new());
        let all = self.get::<SubjectAlternativeName<'_>>(oid::SUBJECT_ALT_NAME)?;
        for name in all.into_iter().flat_map(|names| names.general_names) {
            match name {
                GeneralName::DNSName(host) => hosts.push(host.to_owned()),
                GeneralName::IPAddress(bytes) => {
                    let v4 = || <[u8; 4]>::try_from(bytes).map(IpAddr::from);
                    let v6 = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
                    let address = v4().or_else(|_| v6());
                    let malformed = |_| self.malformed(oid::SUBJECT_ALT_NAME);
                    addresses.push(address.map_err(malformed)?);
                }
                // A host name that does not parse must not open the way to the common name.
                GeneralName::Invalid(Tag(2 | 7), _) => {
                    return Err(self.malformed(oid::SUBJECT_ALT_NAME));
                }
                _ => {}
            }
        }
        Ok((hosts, addresses))
    }
}

/// Parses the value of `ProxyCertInfo`; `None` if it is malformed.
fn proxy_cert_info(format: ProxyFormat, value: &[u8]) -> Option<ProxyInfo> {
    let mut fields = der::elements(der::only(value, SEQUENCE)?)?
        .into_iter()
        .peekable();
    let mut path_length = match format {
        ProxyFormat::Rfc => fields.next_if(|field| field.tag == INTEGER),
        ProxyFormat::Draft | ProxyFormat::Legacy => None,
    };
    let policy = der::elements(fields.next()?.content_of(SEQUENCE)?)?;
    if format == ProxyFormat::Draft
        && let Some(tagged) = fields.next()
    {
        let (length, rest) = der::split(tagged.content_of(0xa1)?)?;
        path_length = Some(rest.is_empty().then_some(length)?);
    }
    let (language, has_policy) = match policy.as_slice() {
        [language] => (language, false),
        [language, text] => (language, !text.content_of(OCTET_STRING)?.is_empty()),
        _ => return None,
    };
    let language = language.content_of(OBJECT_IDENTIFIER)?;
    if fields.next().is_some() || language.is_empty() {
        return None;
    }
    let rights = match language {
        oid::INHERIT_ALL => ProxyRights::Full,
        oid::LIMITED => ProxyRights::Limited,
        oid::INDEPENDENT => ProxyRights::Independent,
        _ => ProxyRights::Restricted,
    };
    Some(ProxyInfo {
        format,
        rights,
        path_length: match path_length {
            Some(length) => Some(length.number()?),
            None => None,
        },
        language: oid::dotted(language),
        has_policy,
    })
}
