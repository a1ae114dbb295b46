"""Contrast of what a page shows, after WCAG 2, from the colours that the browser computed."""

# Texts and lines of charts that can be seen and fall below AA: ["ratio, element, text"].
TOO_PALE = """() => {
  const channel = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const parsed = (text) => {  // any CSS colour, as red, green, blue and opacity
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((c, at) => c * a + under[at] * (1 - a));
  const below = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(parsed(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    const line = node.matches("path.mean:not(.pale)");
    const style = getComputedStyle(node);
    if (!(own || line) || !node.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
    if (node.matches("option, script, style, .unseen, :disabled, .league text")) continue; // on its own paper
    let opacity = 1;
    for (let at = node; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    const background = below(node);
    const [r, g, b, a] = parsed(line ? style.stroke : node.ownerSVGElement ? style.fill : style.color);
    const front = over([r, g, b, a * opacity], background);
    const [x, y] = [light(front), light(background)].sort((p, q) => q - p);
    const ratio = (x + 0.05) / (y + 0.05);
    const size = parseFloat(style.fontSize);
    const large = line || size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const name = `${node.tagName}.${node.className.baseVal ?? node.className}`;
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio} ${name} ${node.textContent.slice(0, 30)}`);
  }
  return found;
}"""


_FADED_IN = """document.getAnimations()
  .filter((each) => each.effect.getComputedTiming().endTime < Infinity).forEach((each) => each.finish())"""


def readable(page):
    """Whether everything can be read in both themes; else what cannot is the error."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.evaluate(_FADED_IN)
        found = page.evaluate(TOO_PALE)
        assert not found, (theme, found)
    return True
