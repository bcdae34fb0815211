//! What somebody may have meant who wrote a name that does not exist.

/// A sentence about an unknown key of a section: the nearest right key there, or the section where this one belongs.
pub(super) fn key(section: &str, key: &str, keys: &[String]) -> String {
    let path = if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
    let shown = bounded(&path);
    let here = keys.iter().filter(|known| parent(known) == section);
    let elsewhere = keys.iter().find(|known| known.rsplit('.').next() == Some(key) && known.contains('.'));
    match (best(&shown, here, section.len()), elsewhere) {
        (Some((near, Close::Yes)), _) => format!("{shown} is unknown; did you mean {near}?"),
        (_, Some(right)) => format!("{shown} is unknown here; it stands under [{}]", parent(right)),
        (Some((near, Close::No)), None) => format!("{shown} is unknown; the nearest right key is {near}"),
        (None, None) => format!("{shown} is unknown"),
    }
}

/// A sentence about an unknown variable: the nearest right one.
pub(super) fn variable(name: &str, variables: &[String]) -> String {
    let shown = bounded(name);
    match best(&shown, variables.iter(), 0) {
        Some((near, Close::Yes)) => format!("{shown} overrides nothing; did you mean {near}?"),
        Some((near, Close::No)) => format!("{shown} overrides nothing; the nearest right variable is {near}"),
        None => format!("{shown} overrides nothing"),
    }
}

/// The nearest of some names, if it is near.
pub(super) fn of<'a>(given: &str, names: &'a [String]) -> Option<&'a str> {
    match best(&bounded(given), names.iter(), 0) {
        Some((near, Close::Yes)) => Some(near),
        _ => None,
    }
}

/// Whether the nearest name is so near that it was probably meant.
enum Close {
    Yes,
    No,
}

/// On one line, and short enough to compare.
fn bounded(name: &str) -> String {
    name.chars().flat_map(char::escape_debug).take(120).collect()
}

fn parent(key: &str) -> &str {
    key.rsplit_once('.').map_or("", |(parent, _)| parent)
}

/// The nearest of `known`; near is what differs in no more than a third of the part after `shared` characters.
fn best<'a>(given: &str, known: impl Iterator<Item = &'a String>, shared: usize) -> Option<(&'a str, Close)> {
    let distance = |name: &str| strsim::damerau_levenshtein(given, name);
    let near = known.min_by_key(|name| distance(name))?;
    let third = near.len().saturating_sub(shared).div_ceil(3);
    Some((near, if distance(near) <= third { Close::Yes } else { Close::No }))
}
