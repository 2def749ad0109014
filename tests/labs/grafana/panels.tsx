// Draws a dashboard with Grafana's own components of @grafana/ui, data from Prometheus' HTTP API. Box plots and heatmaps,
// whose components Grafana does not publish, are drawn here in their manner.
// Globals set by render.mjs: DASH (the dashboard), PROM (base URL), VARS (values of variables), WIDTH, FROM, TO (ms), SCRAPE (s).
import 'uplot/dist/uPlot.min.css';
import React from 'react';
import { createRoot } from 'react-dom/client';
import { applyFieldOverrides, createTheme, dateTime, FieldType, getDisplayProcessor, getDisplayValueAlignmentFactors, getFieldDisplayName, getFieldDisplayValues,
  getValueFormat, formattedValueToString, standardTransformers, standardTransformersRegistry, ThemeContext, toDataFrame, transformDataFrame } from '@grafana/data';
import { BarGauge, BigValue, BigValueGraphMode, GlobalStyles, PanelChrome, Table, TimeSeries } from '@grafana/ui';
declare const DASH: any, PROM: string, VARS: any, WIDTH: number, FROM: number, TO: number, SCRAPE: number;

const COL = WIDTH / 24, ROW = 38;
const theme = createTheme({ colors: { mode: 'dark' } });
const range: any = { from: dateTime(FROM), to: dateTime(TO), raw: { from: dateTime(FROM), to: dateTime(TO) } };
standardTransformersRegistry.setInit(() => [...new Map(Object.values(standardTransformers).map((t: any) => [t.id, t])).values()].map((t: any) => ({ id: t.id, name: t.name, transformation: t, editor: () => null })) as any);
const report: any[] = []; (window as any).REPORT = report;

const stepOf = (p: any) => Math.max(SCRAPE, Math.round((TO - FROM) / 1000 / (p.maxDataPoints ?? 300)));
const sub = (s: string, step = SCRAPE) => s.replace(/\$__rate_interval_ms/g, `${1000 * Math.max(4 * SCRAPE, step + SCRAPE)}`).replace(/\$__rate_interval/g, `${Math.max(4 * SCRAPE, step + SCRAPE)}s`).replace(/\$__interval\b/g, `${step}s`)
  .replace(/\$__range\b/g, `${Math.round((TO - FROM) / 1000)}s`).replace(/\$\{?(\w+)(?::\w+)?\}?/g, (m, k) => VARS[k] ?? m);

async function ask(t: any, p: any) {
  const step = stepOf(p), q: any = { query: sub(t.expr, step) };
  const path = t.instant && !t.range ? 'query' : 'query_range';
  if (path === 'query') q.time = TO / 1e3; else Object.assign(q, { start: Math.floor(FROM / 1e3 / step) * step, end: TO / 1e3, step });
  const answer = await (await fetch(`${PROM}/api/v1/${path}?` + new URLSearchParams(q))).json();
  if (answer.status !== 'success') throw new Error(`${t.refId}: ${answer.error}`);
  return answer.data.result;
}

function tableFrame(t: any, series: any[]) {
  const labels = [...new Set(series.flatMap(s => Object.keys(s.metric)))] as string[];
  return toDataFrame({ refId: t.refId, fields: [
    { name: 'Time', type: FieldType.time, values: series.map(s => s.value[0] * 1000) },
    ...labels.map(l => ({ name: l, type: FieldType.string, values: series.map(s => s.metric[l] ?? '') })),
    { name: `Value #${t.refId}`, type: FieldType.number, values: series.map(s => Number(s.value[1])) }] });
}

function timeFrame(t: any, s: any) {
  const v = s.values ?? [s.value], labels = Object.entries(s.metric).filter(e => e[0] !== '__name__');
  const name = t.legendFormat && t.legendFormat !== '__auto' ? t.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_: any, k: string) => s.metric[k] ?? '')
    : labels.length ? labels.map(e => `${e[0]}="${e[1]}"`).join(', ') : s.metric.__name__ ?? 'Value';
  return toDataFrame({ refId: t.refId, fields: [
    { name: 'Time', type: FieldType.time, values: v.map((x: any) => x[0] * 1000) },
    { name: 'Value', type: FieldType.number, values: v.map((x: any) => Number(x[1])), labels: s.metric, config: { displayNameFromDS: name } }] });
}

async function frames(p: any): Promise<any[]> {
  let out: any[] = [];
  const answers = await Promise.all(p.targets.map((t: any) => ask(t, p)));
  p.targets.forEach((t: any, i: number) => {
    if (t.format === 'table') { if (answers[i].length) out.push(tableFrame(t, answers[i])); }
    else out.push(...answers[i].map((s: any) => timeFrame(t, s)));
  });
  if (p.transformations?.length && out.length) out = await new Promise(done => transformDataFrame(p.transformations, out).subscribe(done));
  const made = applyFieldOverrides({ data: out, fieldConfig: { defaults: {}, overrides: [] }, replaceVariables: (s: any) => sub(s), theme, timeZone: 'utc' });
  let n = 0;
  for (const frame of made) for (const field of frame.fields) configure(p, field, frame, made, field.type === FieldType.number ? n++ : 0);
  return made;
}

function configure(p: any, field: any, frame: any, all: any[], place: number) {
  const d = p.fieldConfig?.defaults ?? {}, name = getFieldDisplayName(field, frame, all);
  field.config = { ...field.config, ...d, displayNameFromDS: field.config.displayNameFromDS, displayName: field.config.displayName,
    color: d.color ?? { mode: 'thresholds' }, custom: { drawStyle: 'line', lineWidth: 1, fillOpacity: 0, showPoints: 'auto', spanNulls: false, axisPlacement: 'auto', ...d.custom } };
  if (field.type !== FieldType.number) for (const key of ['unit', 'min', 'max', 'decimals']) delete field.config[key];
  for (const o of p.fieldConfig?.overrides ?? []) if (o.matcher.id === 'byName' && o.matcher.options === name)
    for (const { id, value } of o.properties) id.startsWith('custom.') ? field.config.custom[id.slice(7)] = value : field.config[id] = value;
  field.state = { ...field.state, seriesIndex: place };
  field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
}

const written = (unit: string, x: number) => formattedValueToString(getValueFormat(unit)(x, undefined));
const clock = (ms: number) => new Date(ms).toISOString().slice(11, 16);
function Axes({ w, h, left, ticks, y, children }: any) {
  const color = theme.colors.text.secondary, times = [0, 1, 2, 3, 4].map(i => FROM + (TO - FROM) * (i + 0.5) / 5);
  return <svg width={w} height={h} fontSize={11} fontFamily="Inter, Helvetica, Arial" fill={color}>
    {ticks.map(([v, text]: any) => <g key={text + v}><line x1={left} x2={w} y1={y(v)} y2={y(v)} stroke="rgba(204,204,220,0.09)" /><text x={left - 6} y={y(v) + 4} textAnchor="end">{text}</text></g>)}
    {times.map(t => <text key={t} x={left + (t - FROM) / (TO - FROM) * (w - left)} y={h - 3} textAnchor="middle">{clock(t)}</text>)}{children}</svg>;
}

function Heat({ p, data, w, h }: any) {
  const le = (f: any) => Number(f.fields[1].labels.le.replace('+Inf', 'Infinity'));
  const rows = [...data].sort((a, b) => le(a) - le(b)), left = 62, top = 4, rh = (h - 22 - top) / rows.length, unit = p.options.yAxis.unit;
  const cells = rows.flatMap((f, i) => f.fields[0].values.map((t: number, j: number) => {
    const below = i ? rows[i - 1].fields[1].values[rows[i - 1].fields[0].values.indexOf(t)] ?? 0 : 0;
    return { t, i, v: f.fields[1].values[j] - below };
  })).filter(c => c.v > 1e-9), most = Math.max(...cells.map(c => c.v), 1e-9), cw = Math.max(2, (w - left) * stepOf(p) * 1000 / (TO - FROM)) - 1;
  const y = (i: number) => top + (rows.length - i) * rh, hue = (v: number) => `hsl(${250 - 230 * Math.sqrt(v / most)} 85% ${38 + 18 * Math.sqrt(v / most)}%)`;
  const every = Math.ceil(rows.length * 14 / (h - 22));
  return <Axes w={w} h={h} left={left} y={y} ticks={rows.map((f, i) => [i + 1, Number.isFinite(le(f)) ? written(unit, le(f)) : '']).filter((_, i) => i % every === 0)}>
    {cells.map((c, k) => <rect key={k} x={left + (c.t - FROM) / (TO - FROM) * (w - left) - cw} y={y(c.i + 1) + 0.5} width={cw} height={rh - 1} fill={hue(c.v)} />)}</Axes>;
}

function Boxes({ p, data, w, h }: any) {
  const by: any = {}; for (const f of data) by[getFieldDisplayName(f.fields[1], f, data)] = f;
  const o = p.options.fields, [low, first, third, high] = [o.low, o.open, o.close, o.high].map((n: string) => by[n]?.fields[1].values ?? []), mid = by.median?.fields[1].values ?? [];
  const times = by[o.open]?.fields[0].values ?? [], d = p.fieldConfig.defaults, top = d.max ?? (Math.max(...high.filter(Number.isFinite)) * 1.05 || 1), left = 72, foot = 22;
  const y = (v: number) => 4 + (h - foot - 4) * (1 - v / top), x = (t: number) => left + (t - FROM) / (TO - FROM) * (w - left), bw = Math.max(3, (w - left) * stepOf(p) * 650 / (TO - FROM));
  return <Axes w={w} h={h} left={left} y={y} ticks={[0, 1, 2, 3, 4].map(i => [top * i / 4, written(d.unit, top * i / 4)])}>
    {times.map((t: number, i: number) => Number.isFinite(first[i]) && <g key={t} stroke={theme.visualization.getColorByName('blue')}>
      <line x1={x(t)} x2={x(t)} y1={y(low[i])} y2={y(high[i])} /><rect x={x(t) - bw / 2} width={bw} y={y(third[i])} height={Math.max(1, y(first[i]) - y(third[i]))} fill={theme.visualization.getColorByName('blue')} fillOpacity={0.7} />
      <line x1={x(t) - bw / 2} x2={x(t) + bw / 2} y1={y(mid[i])} y2={y(mid[i])} stroke={theme.visualization.getColorByName('orange')} strokeWidth={2.5} /></g>)}</Axes>;
}

const markdown = (text: string) => text.split('\n\n').map((part, i) => <p key={i} style={{ margin: '0 0 10px' }}>{part.split(/(\*\*?[^*]+\*\*?)/).map((x, k) =>
  x.startsWith('**') ? <b key={k}>{x.slice(2, -2)}</b> : x.startsWith('*') ? <i key={k}>{x.slice(1, -1)}</i> : x)}</p>);

function Body({ p, w, h }: any) {
  const [st, set] = React.useState<any>(null);
  React.useEffect(() => {
    const done = (r: any) => report.push({ id: p.id, title: p.title, type: p.type, ...r });
    if (p.type === 'text') { done({ series: null }); set({ f: [] }); return; }
    frames(p).then(f => { done({ series: f.length, points: f.reduce((a, x) => a + x.length, 0) }); set({ f }); }, e => { done({ error: String(e) }); set({ e: String(e) }); });
  }, []);
  if (!st) return <div />;
  if (st.e) return <div style={{ color: theme.colors.error.text }}>{st.e}</div>;
  if (p.type === 'text') return <div style={{ padding: 6 }}>{markdown(p.options.content)}</div>;
  if (!st.f.length) return <div style={{ color: theme.colors.text.secondary, fontSize: 16, textAlign: 'center', paddingTop: h / 2 - 14 }}>{p.fieldConfig?.defaults?.noValue ?? 'No data'}</div>;
  const look = { data: st.f, p, w, h };
  if (p.type === 'heatmap') return <Heat {...look} />;
  if (p.type === 'candlestick') return <Boxes {...look} />;
  if (p.type === 'timeseries') return <TimeSeries frames={st.f} timeRange={range} timeZone="utc" width={w} height={h} replaceVariables={(x: any) => x} legend={p.options.legend} /> as any;
  if (p.type === 'table') return <Table data={st.f[0]} width={w} height={h} initialSortBy={p.options.sortBy} cellHeight={p.options.cellHeight} /> as any;
  const vs = getFieldDisplayValues({ fieldConfig: { defaults: {}, overrides: [] }, reduceOptions: p.options.reduceOptions, replaceVariables: (x: any) => x, theme, data: st.f, timeZone: 'utc', sparkline: p.options.graphMode === 'area' });
  const row = p.type === 'stat', factors = getDisplayValueAlignmentFactors(vs);
  return <div style={{ display: 'flex', flexDirection: row ? 'row' : 'column' }}>{vs.map((v, i) => {
    const size = row ? { width: w / vs.length, height: h } : { width: w, height: h / vs.length };
    const value: any = p.options.textMode === 'name' ? { ...v.display, text: v.display.title, prefix: '', suffix: '', title: undefined } : vs.length > 1 || !row ? v.display : { ...v.display, title: undefined };
    return row ? <BigValue key={i} value={value} {...size} theme={theme as any} colorMode={p.options.colorMode} graphMode={v.sparkline ? BigValueGraphMode.Area : BigValueGraphMode.None} sparkline={v.sparkline} justifyMode={p.options.justifyMode} />
      : <BarGauge key={i} value={value} field={v.field} display={v.view?.getFieldDisplayProcessor(v.colIndex!)} {...size} theme={theme as any} orientation={'horizontal' as any} displayMode={p.options.displayMode} alignmentFactors={factors} showUnfilled />;
  })}</div>;
}

const panels = DASH.panels, height = Math.max(...panels.map((p: any) => p.gridPos.y + p.gridPos.h)) * ROW;
(window as any).EXPECT = panels.filter((p: any) => p.type !== 'row').length;
createRoot(document.getElementById('root')!).render(
  <ThemeContext.Provider value={theme}><GlobalStyles />
    <div style={{ position: 'relative', width: WIDTH, height, background: theme.colors.background.canvas }}>
      {panels.map((p: any) => { const g = p.gridPos, w = g.w * COL - 8, h = g.h * ROW - 8;
        return <div key={p.id} style={{ position: 'absolute', left: g.x * COL, top: g.y * ROW, color: theme.colors.text.primary }}>
          {p.type === 'row' ? <div style={{ fontSize: 18, fontWeight: 500, padding: '4px 0 0 6px' }}>{p.collapsed ? '›' : '⌄'} {p.title} {p.collapsed && <span style={{ fontSize: 12, color: theme.colors.text.secondary }}>({p.panels.length} panels)</span>}</div>
            : <PanelChrome title={sub(p.title ?? '')} description={p.description} width={w} height={h}>{(iw: number, ih: number) => <Body p={p} w={iw} h={ih} />}</PanelChrome>}</div>; })}
    </div></ThemeContext.Provider>);
