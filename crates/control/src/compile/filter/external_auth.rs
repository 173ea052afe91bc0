//! External authentication, of its options.

use sluice_expression::{Phase, Scope, Template};
use sluice_filters::{
    AuthBody, AuthProtocol, AuthSettings, DecisionCache, ExternalAuth, Names, OnError,
};
use sluice_model::{AuthCache, Expression};

use super::Tools;

pub(super) fn external_auth(
    options: &sluice_model::ExternalAuth,
    tools: &mut Tools<'_>,
) -> Result<ExternalAuth, String> {
    let added = options.add.iter();
    let add = added.map(|(name, text)| Ok((name.clone(), template(text)?)));
    let settings = AuthSettings {
        cluster: options.upstream.position,
        protocol: protocol(&options.protocol),
        send: names(&options.send),
        add: add.collect::<Result<_, String>>()?,
        body: body(options.body),
        up: names(&options.up),
        down: names(&options.down),
        denied: names(&options.denied),
        user: options.user.clone(),
        sign_in: options.sign_in.as_ref().map(template).transpose()?,
        on_error: options.on_error.map_or(OnError::Pass, OnError::Refuse),
        timeout: options.timeout,
        attempts: options.attempts,
        answer_limit: bytes(options.answer_limit),
        cache: options.cache.as_ref().map(cache).transpose()?,
    };
    let meter = tools.meter(ExternalAuth::OUTCOMES);
    Ok(ExternalAuth::new(settings, tools.workers(), (tools.name(), meter)))
}

fn protocol(protocol: &sluice_model::AuthProtocol) -> AuthProtocol {
    match protocol.clone() {
        sluice_model::AuthProtocol::Forward { path, method } => {
            AuthProtocol::Forward { path, method }
        }
        sluice_model::AuthProtocol::Prefix(prefix) => AuthProtocol::Prefix(prefix),
        sluice_model::AuthProtocol::Grpc(context) => AuthProtocol::Grpc(context),
    }
}

fn body(body: sluice_model::AuthBody) -> AuthBody {
    match body {
        sluice_model::AuthBody::None => AuthBody::None,
        sluice_model::AuthBody::Partial(most) => AuthBody::Partial(bytes(most)),
        sluice_model::AuthBody::Full(most) => AuthBody::Full(bytes(most)),
    }
}

fn names(patterns: &[String]) -> Names {
    let mut names = Names::default();
    for pattern in patterns {
        match pattern.strip_suffix('*') {
            Some(start) => names.prefixes.push(start.to_owned()),
            None => names.exact.push(pattern.clone()),
        }
    }
    names
}

fn cache(cache: &AuthCache) -> Result<DecisionCache, String> {
    Ok(DecisionCache {
        key: template(&cache.key)?,
        ttl: cache.ttl,
        negative_ttl: cache.negative_ttl,
        entries: usize::try_from(cache.entries).unwrap_or(usize::MAX),
    })
}

/// A template of the model, which has checked it.
fn template(text: &Expression) -> Result<Template, String> {
    let compiled = Template::compile(&text.0, &Scope::new(Phase::Request));
    compiled.map_err(|problem| problem.to_string())
}

fn bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
