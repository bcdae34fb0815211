//! The picture of two runs: residents, deletes, creates and failures over time, as an SVG of four panels.
//!
//! Must stay true: no font, script or address from elsewhere; readable on a light and on a dark page, and without telling colours
//! apart (one run is dashed); the same notes give the same bytes.

use std::fmt::Write as _;

use super::record::Note;

const WIDTH: u64 = 900;
const HEIGHT: u64 = 600;
/// A panel's own area, without its title and its numbers.
const PANEL: (u64, u64) = (370, 185);
const LEFT: u64 = 60;
const TOP: u64 = 100;
const STEP: (u64, u64) = (440, 265);

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#24292f}.t{font-weight:600}.n{font-size:11px;fill:#57606a}\
path{fill:none;stroke-width:2;stroke-linejoin:round}.g{stroke:#8c959f;stroke-opacity:.35;stroke-width:1}\
.a{stroke:#b3401b;stroke-dasharray:6 3}.w{stroke:#0a6c7d}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#9da7b3}.a{stroke:#ff9466}.w{stroke:#4fc6da}}";

/// One panel: what it shows of a note.
type Shows = (&'static str, fn(&Note) -> u64);

const PANELS: [Shows; 4] = [
    ("sandboxes on the node", |note| note.residents),
    ("deleted since the beginning", |note| note.deleted),
    ("created and answered since the beginning", |note| note.created),
    ("failed calls since the beginning", Note::failed),
];

/// Both runs; they are equally long.
pub(super) fn draw(article: &[Note], warden: &[Note]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"18 June replayed, without and with cubewarden\">\n<style>{STYLE}</style>\n"
    );
    let legend = |svg: &mut String, x: u64, class: &str, words: &str| {
        writeln!(svg, "<path class=\"{class}\" d=\"M{x} 47h36\"/>").unwrap();
        writeln!(svg, "<text x=\"{}\" y=\"51\">{words}</text>", x + 44).unwrap();
    };
    writeln!(svg, "<text class=\"t\" x=\"{LEFT}\" y=\"24\">18 June 2026, replayed</text>").unwrap();
    legend(&mut svg, LEFT, "a", "as it was: no breaker, serial kills");
    legend(&mut svg, LEFT + 330, "w", "the same node and clients, with cubewarden");
    let minutes = article.last().map_or(1, |note| note.at.as_secs() / 60).max(1);
    for (nth, panel) in (0..).zip(PANELS) {
        let at = (LEFT + nth % 2 * STEP.0, TOP + nth / 2 * STEP.1);
        draw_panel(&mut svg, at, panel, minutes, [("a", article), ("w", warden)]);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_panel(
    svg: &mut String,
    (left, top): (u64, u64),
    (title, value): Shows,
    minutes: u64,
    runs: [(&str, &[Note]); 2],
) {
    let (wide, high) = PANEL;
    let most = runs.iter().flat_map(|(_, notes)| notes.iter().map(value)).max().unwrap_or(0);
    let scale = round_up(most);
    let y = |amount: u64| top + high - amount * high / scale;
    let x = |seconds: u64| left + seconds * wide / (minutes * 60);
    writeln!(svg, "<text class=\"t\" x=\"{left}\" y=\"{}\">{title}</text>", top - 12).unwrap();
    for part in 0..=4 {
        let (amount, line) = (scale * part / 4, y(scale * part / 4));
        writeln!(svg, "<path class=\"g\" d=\"M{left} {line}h{wide}\"/>").unwrap();
        let (end, base) = (left - 6, line + 4);
        writeln!(svg, "<text class=\"n\" x=\"{end}\" y=\"{base}\" text-anchor=\"end\">{amount}</text>")
            .unwrap();
    }
    let every = minutes.div_ceil(6);
    for minute in (0..=minutes).step_by(usize::try_from(every).unwrap()) {
        let (at, base) = (x(minute * 60), top + high + 16);
        let unit = if minute == 0 { " min" } else { "" };
        writeln!(
            svg,
            "<text class=\"n\" x=\"{at}\" y=\"{base}\" text-anchor=\"middle\">{minute}{unit}</text>"
        )
        .unwrap();
    }
    for (class, notes) in runs {
        let points = notes.iter().map(|note| format!("{} {}", x(note.at.as_secs()), y(value(note))));
        let line = points.collect::<Vec<_>>().join("L");
        writeln!(svg, "<path class=\"{class}\" d=\"M{line}\"/>").unwrap();
    }
}

/// The next number that reads well and can be halved twice.
fn round_up(most: u64) -> u64 {
    let steps = (0..).flat_map(|power| [4, 8, 12, 16, 20, 24, 32].map(|step| step * 10_u64.pow(power)));
    steps.take_while(|step| *step <= 1_000_000_000).find(|step| *step >= most).unwrap_or(most.max(1))
}
