// render.mjs DASH.json PROM_URL OUT.png [--minutes 15] [--width 1400] [--scrape 5] [--var name=value]...
// Bundles panels.tsx (cached), serves it on loopback, screenshots it with headless Chromium.
import fs from 'node:fs'; import path from 'node:path'; import http from 'node:http'; import os from 'node:os';
import { spawn, execFileSync } from 'node:child_process'; import { fileURLToPath } from 'node:url';
const here = path.dirname(fileURLToPath(import.meta.url)), [file, prom, png, ...rest] = process.argv.slice(2);
const opt = { minutes: 15, width: 1400, scrape: 5 }, vars = {};
for (let i = 0; i < rest.length; i += 2) rest[i] === '--var' ? vars[rest[i + 1].split('=')[0]] = rest[i + 1].split('=').slice(1).join('=') : opt[rest[i].slice(2)] = Number(rest[i + 1]);
const dash = JSON.parse(fs.readFileSync(file)), out = path.join(here, '.bundle');
const stale = !fs.existsSync(out + '/out.js') || fs.statSync(out + '/out.js').mtimeMs < fs.statSync(here + '/panels.tsx').mtimeMs;
if (stale) execFileSync(here + '/node_modules/.bin/esbuild', [here + '/panels.tsx', '--bundle', '--minify', `--outfile=${out}/out.js`,
  // the ESM build is .mjs: esbuild then takes module.exports of CommonJS dependencies as their default (React error 130)
  ...["ui", "data"].map(x => `--alias:@grafana/${x}=${here}/node_modules/@grafana/${x}/dist/cjs/index.cjs`),
  '--format=iife', '--platform=browser', '--define:process.env.NODE_ENV="production"',
  ...['svg', 'woff2', 'ttf', 'png'].map(x => `--loader:.${x}=dataurl`), '--log-level=error']);
for (const v of dash.templating?.list ?? []) vars[v.name] ??= v.type === 'query' || v.includeAll ? '.*' : (v.current?.value ?? '');
const to = Math.floor(Date.now() / 1000) * 1000, from = to - opt.minutes * 60e3;
let report; const got = new Promise(r => report = r);
const html = `<!doctype html><html><head><meta charset=utf-8><link rel=stylesheet href=out.css></head><body style="margin:0;background:#111217"><div id=root></div><script>
var DASH=${JSON.stringify(dash).replace(/</g, '\\u003c')},PROM="/prom",VARS=${JSON.stringify(vars)},WIDTH=${opt.width},FROM=${from},TO=${to},SCRAPE=${opt.scrape};
window.onerror=m=>fetch('/report',{method:'POST',body:JSON.stringify([{error:String(m)}])});
setInterval(()=>{if(window.REPORT&&REPORT.length>=EXPECT&&!window.sent){window.sent=1;fetch('/report',{method:'POST',body:JSON.stringify(REPORT)})}},50)</script><script src="out.js"></script></body></html>`;
const srv = http.createServer((q, s) => {
  if (q.url === '/report') { let b = ''; q.on('data', c => b += c).on('end', () => { report(JSON.parse(b)); s.end(); }); }
  else if (q.url.startsWith('/prom/')) http.get(prom + q.url.slice(5), r => { s.writeHead(r.statusCode, { 'content-type': 'application/json' }); r.pipe(s); }).on('error', e => { s.writeHead(502); s.end(JSON.stringify({ status: 'error', error: String(e) })); });
  else if (q.url === '/out.js' || q.url === '/out.css') { s.writeHead(200, { 'content-type': q.url.endsWith('js') ? 'text/javascript' : 'text/css' }); fs.createReadStream(out + q.url).pipe(s); }
  else if (q.url === '/') { s.writeHead(200, { 'content-type': 'text/html' }); s.end(html); } else { s.writeHead(404); s.end(); }
}).listen(0, '127.0.0.1', () => {
  const height = Math.max(...dash.panels.map(p => p.gridPos.y + p.gridPos.h)) * 38, prof = fs.mkdtempSync(path.join(os.tmpdir(), 'chr-'));
  const chr = spawn(process.env.CHROMIUM ?? 'chromium', ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', `--user-data-dir=${prof}`,
    `--window-size=${opt.width},${height}`, '--virtual-time-budget=8000', `--screenshot=${path.resolve(png)}`, `http://127.0.0.1:${srv.address().port}/`], { stdio: 'ignore' });
  const timer = setTimeout(() => chr.kill('SIGKILL'), 60e3);
  chr.on('exit', async () => {
    clearTimeout(timer); fs.rmSync(prof, { recursive: true, force: true });
    const rows = await Promise.race([got, new Promise(r => setTimeout(() => r([{ error: 'the page did not report' }]), 1000))]);
    let bad = 0;
    for (const r of rows) { const fail = r.error || r.series === 0; bad += !!fail; console.log(JSON.stringify({ ok: !fail, ...r })); }
    srv.closeAllConnections(); srv.close(); process.exitCode = bad ? 1 : 0;
  });
});
