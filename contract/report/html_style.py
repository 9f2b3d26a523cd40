"""The stylesheet of the HTML page. Colours are named by what they say; every one is told by words or shape as well."""

from __future__ import annotations

from typing import Final

STYLESHEET: Final = """\
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --card: #f6f8fa; --line: #d0d7de; --dim: #57606a; --heat: 9, 105, 218;
  --good: #1a7f37; --bad: #b3261e; --open: #7d4e00; --calm: #0550ae; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --card: #151b23; --line: #3d444d; --dim: #9198a1; --heat: 88, 166, 255;
    --good: #3fb950; --bad: #ff7b72; --open: #e3b341; --calm: #79c0ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; font: 1rem/1.5 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.75rem; margin: 0; } h1 small { font-size: 1rem; font-weight: normal; }
h2 { font-size: 1.2rem; margin: 2rem 0 .6rem; } h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; } p { margin: .4rem 0; }
a { color: var(--calm); }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); } .calm { color: var(--calm); }
.dim { color: var(--dim); } code, dd { font-family: ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
.verdict { border: 1px solid var(--line); border-left: .5rem solid; border-radius: 6px; background: var(--card); padding: .8rem 1rem; }
.verdict p { color: var(--ink); } .verdict p.dim { color: var(--dim); }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; margin: 1rem 0 0; padding: 0; }
article { border: 1px solid var(--line); border-left-width: .3rem; border-radius: 6px; padding: .7rem 1rem; margin: .7rem 0; }
article.bad, article.open, article.calm { color: inherit; }
article.bad { border-left-color: var(--bad); } article.open { border-left-color: var(--open); }
article.calm { border-left-color: var(--calm); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .5rem 0 0; }
dt { color: var(--dim); } dd { margin: 0; min-width: 0; } dd.prose { font-family: inherit; overflow-wrap: break-word; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; }
th, td { border: 1px solid var(--line); padding: .25rem .4rem; text-align: right; font-variant-numeric: tabular-nums; }
th[scope=row], .left { text-align: left; white-space: nowrap; position: sticky; left: 0; background: var(--paper); }
th[scope=rowgroup] { text-align: left; overflow-wrap: anywhere; background: var(--card); }
td { min-width: 3.6rem; vertical-align: top; } td small { display: block; }
td.wanted { outline: 2px solid var(--calm); outline-offset: -2px; }
td.found { font-weight: bold; } td.found.wrong { outline: 2px solid var(--bad); outline-offset: -2px; }
.box { fill: var(--card); stroke: var(--dim); } .box.struck { stroke: var(--bad); stroke-width: 2; }
.edge { stroke: var(--dim); stroke-width: 2; fill: none; } .tip { fill: var(--dim); }
.edge.broken { stroke: var(--bad); stroke-width: 4; stroke-dasharray: 7 4; } .tip.broken { fill: var(--bad); }
text { fill: var(--ink); text-anchor: middle; font: .75rem system-ui, sans-serif; }
td:has(.bar) { text-align: left; }
.bar { display: block; height: .5rem; background: var(--calm); }
.bar.claimed { background: var(--dim); } .bar.inference { background: var(--open); }
.strip { display: block; height: 1.1rem; } .strip .hit { fill: var(--good); } .strip .miss { fill: var(--bad); }
.strip .none { fill: var(--line); }
details { border-top: 1px solid var(--line); padding: .4rem 0; } main > details:first-of-type { margin-top: 2rem; }
summary { cursor: pointer; } summary h2 { display: inline; font-size: 1rem; margin: 0; }
li { overflow-wrap: anywhere; } :focus-visible { outline: 3px solid var(--calm); outline-offset: 2px; }
@media (max-width: 40rem) { body { padding: .8rem; } dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .3rem; } }
@media print { body { max-width: none; } nav { display: none; } article { break-inside: avoid; } }
"""
