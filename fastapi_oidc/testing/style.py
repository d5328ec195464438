"""The look of the provider's pages, light and dark."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5b6577; --line: #d9dee7;
  --paper: #fff; --ground: #eef1f6; --accent: #2557d6; --warn: #7a4b00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecf4; --soft: #a3adbf; --line: #364054;
  --paper: #1b2230; --ground: #10151f; --accent: #8fb0ff; --warn: #f0c36d; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: flex; flex-direction: column; gap: 1rem;
  align-items: center; justify-content: center; padding: 1rem; background: var(--ground);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { width: 100%; max-width: 25rem; padding: 2rem; background: var(--paper);
  border: 1px solid var(--line); border-radius: 16px; box-shadow: 0 12px 40px #0000001a; }
h1 { margin: 0; font-size: 1.5rem; }
.to { margin: .25rem 0 1.5rem; color: var(--soft); overflow-wrap: anywhere; }
a { color: var(--accent); }
button { font: inherit; color: inherit; cursor: pointer; border-radius: 12px; width: 100%; }
button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.person { display: flex; align-items: center; gap: .75rem; margin-bottom: .5rem; padding: .6rem;
  text-align: left; background: none; border: 1px solid var(--line); }
.person:hover { border-color: var(--accent); }
.name { flex: 1; min-width: 0; overflow-wrap: anywhere; }
.name small { display: block; color: var(--soft); }
.face { display: grid; place-items: center; width: 2.5rem; height: 2.5rem; flex: none;
  border-radius: 50%; color: #fff; font-weight: 600; }
.hue0 { background: #2f5fb3; } .hue1 { background: #7b3fa0; } .hue2 { background: #a63a50; }
.hue3 { background: #1f7a55; } .hue4 { background: #8a5a00; } .hue5 { background: #2b6f84; }
.role { padding: .1rem .6rem; border: 1px solid var(--line); border-radius: 99px;
  color: var(--soft); font-size: .8rem; }
.main { padding: .7rem; background: #2557d6; border: 0; color: #fff; font-weight: 600; }
.quiet { margin-top: .5rem; padding: .5rem; background: none; border: 0; color: var(--soft); }
footer { color: var(--warn); font-size: .85rem; text-align: center; }
"""
"""The style sheet, sent inline and allowed by its hash."""
