// typecheck.mjs DASH.json... - check dashboards against Grafana's published TypeScript types (@grafana/schema).
// Each dashboard becomes a TypeScript object literal, so tsc's excess-property check finds unknown keys,
// wrong types and wrong enum values; panel options and fieldConfig.defaults.custom are checked per panel type.
import fs from 'node:fs'; import path from 'node:path'; import { execFileSync } from 'node:child_process'; import { fileURLToPath } from 'node:url';
const here = process.env.GRAFANA_LAB ?? path.dirname(fileURLToPath(import.meta.url)); // where node_modules is
const dist = path.join(here, 'node_modules/@grafana/schema/dist'), isNew = fs.existsSync(`${dist}/types/raw`); // since 12
const raw = `${dist}/${isNew ? 'types' : 'esm'}/raw`, gen = name => isNew ? 'types.gen' : `${name}_types.gen`;
const camel = { timeseries: 'TimeSeries', stat: 'Stat', table: 'Table', gauge: 'Gauge', bargauge: 'BarGauge', heatmap: 'Heatmap', barchart: 'BarChart',
  piechart: 'PieChart', 'state-timeline': 'StateTimeline', 'status-history': 'StatusHistory', text: 'Text', histogram: 'Histogram', logs: 'Logs', news: 'News', xychart: 'XYChart', trend: 'Trend', candlestick: 'Candlestick' };
const flat = ps => (ps ?? []).flatMap(p => [p, ...flat(p.panels)]);
let bad = 0;
for (const file of process.argv.slice(2)) {
  const d = JSON.parse(fs.readFileSync(file));
  // Keys of the Prometheus data source's annotations, which the published types do not have.
  for (const a of d.annotations?.list ?? []) for (const k of ['expr', 'useValueForTime', 'titleFormat', 'tagKeys']) delete a[k];
  const panels = flat(d.panels);
  const tmp = fs.mkdtempSync(path.join(here, '.tc-'));
  try {
    const id = t => 't_' + t.replace(/\W/g, '');
    const mod = t => `${raw}/composable/${t.replace(/-/g, '')}/panelcfg/x/${gen(`${camel[t]}PanelCfg`)}`;
    let ts = `import * as dash from ${JSON.stringify(`${raw}/dashboard/x/${gen('dashboard')}`)};\n`;
    const known = new Set(panels.map(p => p.type).filter(t => camel[t] && fs.existsSync(mod(t) + '.d.ts')));
    for (const p of panels) if (p.type !== 'row' && !known.has(p.type)) { bad++; console.log(`${file}: panel ${JSON.stringify(p.title)}: unknown panel type ${JSON.stringify(p.type)}`); }
    for (const t of known) ts += `import * as ${id(t)} from ${JSON.stringify(mod(t))};\n`;
    ts += 'type L<T> = T extends string ? T | `${T}` : T extends (infer U)[] ? L<U>[] : T extends object ? {[K in keyof T]: L<T[K]>} : T;\n';
    const where = [], put = (label, type, value) => { for (const l of `export const v${where.length}: L<Partial<${type}>> = ${JSON.stringify(value, null, 1)};`.split('\n')) { ts += l + '\n'; lines.push(label); } where.push(label); };
    const lines = ts.split('\n').slice(0, -1).map(() => '');
    put('dashboard', 'dash.Dashboard', d);
    for (const p of panels) if (known.has(p.type)) {
      put(`panel ${JSON.stringify(p.title)} options`, `${id(p.type)}.Options`, p.options ?? {});
      const c = p.fieldConfig?.defaults?.custom;
      if (c && /export (interface|type) FieldConfig\b/.test(fs.readFileSync(mod(p.type) + '.d.ts', 'utf8'))) put(`panel ${JSON.stringify(p.title)} fieldConfig.defaults.custom`, `${id(p.type)}.FieldConfig`, c);
    }
    fs.writeFileSync(path.join(tmp, 'check.ts'), ts);
    try { execFileSync(path.join(here, 'node_modules/.bin/tsc'), ['--noEmit', '--strict', '--skipLibCheck', '--pretty', 'false', '--module', 'esnext', '--moduleResolution', 'bundler', '--target', 'es2022', path.join(tmp, 'check.ts')], { encoding: 'utf8' }); }
    catch (e) { for (const l of (e.stdout ?? String(e)).split('\n')) { const m = /check\.ts\((\d+),\d+\): error (.*)/.exec(l); if (m) { bad++; console.log(`${file}: ${lines[m[1] - 1]}: ${m[2].slice(0, 160)}  <- ${ts.split('\n')[m[1] - 1].trim()}`); } } }
  } finally { fs.rmSync(tmp, { recursive: true }); }
}
console.log(bad ? `${bad} problem(s)` : 'ok'); process.exitCode = bad ? 1 : 0;
