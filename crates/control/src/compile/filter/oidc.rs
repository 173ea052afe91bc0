//! Users who sign in, of the options.

use sluice_filters::Secret;
use sluice_filters::oidc::{ClientAuth, Endpoint, Forwarding, Oidc, OidcOptions, ProviderOptions};
use sluice_model::OidcEndpoint;

use super::Tools;
use super::auth::sealer;

pub(super) fn oidc(options: &sluice_model::Oidc, tools: &mut Tools<'_>) -> Result<Oidc, String> {
    let session = &options.session;
    let provider = &options.provider;
    // A session of one filter must be nothing to another that has the same secrets: whoever may make
    // accounts at one issuer or client would be let in everywhere.
    let name = tools.name().to_owned();
    let bindings = [&*name, &*provider.issuer, &*options.client_id];
    let sealer = sealer((&session.secrets, &session.secret_files), ("oidc", &bindings), tools)
        .map_err(|why| format!("`secrets`: {why}"))?;
    let settings = OidcOptions {
        provider: ProviderOptions {
            issuer: provider.issuer.clone(),
            discovery: endpoint(&provider.discovery),
            authorization: provider.authorization_url.clone(),
            end_session: provider.end_session_url.clone(),
            token: provider.token.as_ref().map(endpoint),
            jwks: provider.jwks.as_ref().map(endpoint),
            revocation: provider.revocation.as_ref().map(endpoint),
            timeout: provider.timeout,
        },
        client_id: options.client_id.clone(),
        client_secret: client_secret(options, tools)?,
        client_auth: match options.client_auth {
            sluice_model::ClientAuth::Basic => ClientAuth::Basic,
            sluice_model::ClientAuth::Post => ClientAuth::Post,
        },
        scopes: options.scopes.join(" "),
        cookie: session.cookie.clone(),
        life: session.life.as_secs(),
        callback_path: options.callback_path.clone(),
        logout_path: options.logout_path.clone(),
        after_logout: options.after_logout.clone(),
        public_url: options.public_url.clone(),
        user_claim: options.user_claim.clone(),
        fields: options
            .headers
            .iter()
            .map(|(name, claim)| (name.as_bytes().into(), claim.clone()))
            .collect(),
        forwarding: if options.forward_token { Forwarding::Token } else { Forwarding::Nothing },
    };
    Ok(Oidc::new(settings, sealer, tools.meter(Oidc::OUTCOMES)))
}

fn client_secret(
    options: &sluice_model::Oidc,
    tools: &mut Tools<'_>,
) -> Result<Option<Secret>, String> {
    match (&options.client_secret, &options.client_secret_file) {
        (Some(_), Some(_)) => {
            Err("give it `client_secret` or `client_secret_file`, not both".to_owned())
        }
        (Some(secret), None) => Ok(Some(Secret::new(secret.expose()))),
        (None, Some(path)) => Ok(Some(Secret::from_file(&tools.files.read(path)?))),
        (None, None) => Ok(None),
    }
}

fn endpoint(place: &OidcEndpoint) -> Endpoint {
    Endpoint {
        cluster: place.upstream.position,
        host: place.host.clone(),
        target: place.target.clone(),
    }
}
