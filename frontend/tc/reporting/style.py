"""The page's style: light and dark, wide and narrow, on paper."""

STYLE = """
:root { color-scheme: light dark; --back: #f5f6f8; --card: #ffffff; --shade: rgb(27 34 48 / .28); --ink: #1b2230; --soft: #566076;
  --line: #d9dee7; --accent: #1f5fc4; --bad: #b3261e; --good: #1b7a3d;
  --k0: #1f5fc4; --k1: #1b7a3d; --k2: #8a3da8; --k3: #b35900; --k4: #0b7382; --k5: #b3261e;
  --k6: #7a6a12; --k7: #5b6472; }
@media (prefers-color-scheme: dark) { :root { --back: #12161d; --card: #1b212b; --shade: rgb(0 0 0 / .75); --ink: #e8ecf3;
  --soft: #a4aec0; --line: #343d4c; --accent: #82b1ff; --bad: #ff9a91; --good: #7fd39b;
  --k0: #6fa5f7; --k1: #62c283; --k2: #cb91e4; --k3: #f0a45a; --k4: #5cc4d4; --k5: #ff8d83;
  --k6: #d0bf5a; --k7: #a4aec0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
header, main, footer { max-width: 1200px; margin: 0 auto; padding: 16px; }
header { padding-bottom: 0; }
h1 { font-size: 1.5rem; margin: 0 0 4px; line-height: 1.25; }
h2 { font-size: 1.15rem; margin: 0 0 12px; }
h3 { font-size: 1rem; margin: 16px 0 8px; }
p { margin: 0 0 10px; max-width: 75ch; }
a { color: var(--accent); }
a:focus-visible, .scrolled:focus-visible, .canvas:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.skip { position: absolute; left: -9999px; }
.skip:focus { left: 8px; top: 8px; background: var(--card); padding: 8px; }
.soft { color: var(--soft); }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 0; margin: 10px 0 0; }
nav a { display: inline-block; padding: 4px 0; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 16px; }
main { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; }
section { grid-column: span 2; min-width: 0; }
@media (min-width: 900px) { .half { grid-column: span 1; } .half .scrolled { max-height: 30rem; } }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(118px, 1fr)); gap: 12px 16px; margin: 0 0 16px; }
.tiles dt { color: var(--soft); font-size: .875rem; }
.tiles dd { margin: 0; font-size: 1.35rem; font-weight: 650; }
.tiles .note { display: block; font-size: .8125rem; font-weight: 400; color: var(--soft); line-height: 1.35; }
.facts { display: grid; grid-template-columns: minmax(90px, max-content) minmax(0, 1fr); gap: 4px 20px; margin: 0; }
.facts dt { color: var(--soft); }
.facts dd { margin: 0; }
pre { white-space: pre-wrap; background: var(--back); border: 1px solid var(--line); border-radius: 6px;
  padding: 10px; margin: 10px 0 0; font: .875rem/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
/* A shade at a side where more can be scrolled into sight. */
.scrolled { overflow: auto; max-height: 75vh; margin: 0 0 12px; background:
  linear-gradient(to right, var(--card) 40%, transparent) left / 40px 100% no-repeat local,
  linear-gradient(to left, var(--card) 40%, transparent) right / 40px 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) left / 14px 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) right / 14px 100% no-repeat scroll; }
.drawn { max-width: 760px; max-height: none; }
.canvas { overflow: auto; max-height: 75vh; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; font-size: .875rem; min-width: 100%; }
caption { text-align: left; color: var(--soft); padding: 0 0 8px; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; position: sticky; top: 0; background: var(--card); }
tbody th { font-weight: 400; white-space: normal; min-width: 16ch; max-width: 40ch; }
#steps tbody th { min-width: 30ch; max-width: 56ch; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.some { white-space: normal; min-width: 18ch; max-width: 30ch; }
td.wide { white-space: normal; min-width: 26ch; max-width: 46ch; }
.bad { color: var(--bad); font-weight: 600; }
.good { color: var(--good); font-weight: 600; }
figure { margin: 0; }
svg.picture { width: 100%; min-width: 500px; height: auto; display: block; }
svg text { fill: var(--ink); font: 11px system-ui, "DejaVu Sans", sans-serif; }
.picture text { font-size: 12.5px; }
svg .tick, svg .axis { fill: var(--soft); }
.grid { stroke: var(--line); stroke-width: 1; }
.roof { stroke: var(--ink); stroke-width: 1.4; }
.bound { stroke: var(--bad); stroke-width: 1.4; stroke-dasharray: 6 4; }
.point { fill-opacity: .65; stroke: var(--card); stroke-width: .7; }
.block { stroke: var(--card); stroke-width: .6; }
.curve { fill: none; stroke-width: 2; }
.right { fill: var(--good); } .wrong { fill: var(--bad); }
.bar { width: 60px; height: 8px; margin-left: 6px; }
.bar .track { fill: var(--line); } .bar .full { fill: var(--accent); }
.swatch { width: 10px; height: 10px; margin-right: 6px; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 16px; padding: 0; margin: 8px 0 14px; font-size: .875rem; }
.graph text { text-anchor: middle; }
.graph .node polygon, .graph .node ellipse { fill: var(--card); stroke: var(--soft); stroke-width: 1.2; }
.graph .edge path { fill: none; stroke: var(--soft); }
.graph .edge polygon { fill: var(--soft); stroke: var(--soft); }
@media print {
  :root { color-scheme: light; --back: #fff; --card: #fff; --ink: #000; --soft: #333; --line: #bbb; }
  body { font-size: 10pt; }
  nav, .skip { display: none; }
  section { border: 0; padding: 0; break-inside: auto; }
  figure, svg.picture, tr { break-inside: avoid; }
  main { display: block; }
  .scrolled, .half .scrolled, .canvas { overflow: visible; max-height: none; }
  svg.picture { min-width: 0; max-width: 15cm; }
  th, td { white-space: normal; }
  thead th { position: static; }
  .graph { max-width: 100%; height: auto; }
}
""" + "\n".join(
    f".k{number} rect, rect.k{number}, circle.k{number} {{ fill: var(--k{number}); }} "
    f"path.k{number} {{ stroke: var(--k{number}); }} "
    f".graph .node.k{number} polygon {{ stroke: var(--k{number}); stroke-width: 2; }}"
    for number in range(8)
)
