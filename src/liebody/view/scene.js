// Plays what page.py wrote: #data says what there is, #bytes holds the numbers. THREE is vendor/three.min.js.
// A link to page.html#t=0.5 shows that time and stands still.
(async () => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const packed = Uint8Array.from(atob($("bytes").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  const KINDS = { f4: Float32Array, f8: Float64Array, u2: Uint16Array, u4: Uint32Array };
  const numbers = ({ at, length, kind }) =>
    new KINDS[kind](bytes.slice(at, at + length * KINDS[kind].BYTES_PER_ELEMENT));

  const times = numbers(data.t), poses = numbers(data.poses), path = numbers(data.path);
  const { members, bodies, size, cell } = data, frames = times.length, last = frames - 1;

  $("title").append(data.title);
  if (data.note) $("title").append(Object.assign(document.createElement("small"), { textContent: data.note }));

  // -- what is seen ---------------------------------------------------------------------------------------

  let renderer;
  try {
    renderer = new THREE.WebGLRenderer({ antialias: true });
  } catch (error) {
    $("title").append(" needs WebGL, which this browser does not have");
    document.documentElement.style.background = document.body.style.background = "none"; // a picture may lie behind
    return;
  }
  renderer.setPixelRatio(window.devicePixelRatio);
  renderer.shadowMap.enabled = true;
  document.body.prepend(renderer.domElement);
  renderer.domElement.tabIndex = 0;
  renderer.domElement.setAttribute("role", "img");
  renderer.domElement.setAttribute("aria-label", `${data.title}: drag, or press arrow keys, to turn; + and - to zoom`);

  const scene = new THREE.Scene(), layers = new Map();
  scene.background = new THREE.Color("#f4f6f8");
  const show = (layer, object) => {
    if (!layers.has(layer)) layers.set(layer, []);
    layers.get(layer).push(object);
    object.visible = data.shown.includes(layer);
  };

  // Normals at the corners of each face: of the surface where it is smooth, else the face's own.
  function geometry([v, f]) {
    const vertices = numbers(v), faces = numbers(f), n = faces.length;
    const corners = new Float32Array(3 * n), own = new Float32Array(n), normals = new Float32Array(3 * n);
    const at = new Float32Array(vertices.length), a = new THREE.Vector3(), b = a.clone(), c = a.clone();
    for (let i = 0; i < n; i += 3) {
      [a, b, c].forEach((x, k) => {
        x.fromArray(vertices, 3 * faces[i + k]);
        x.toArray(corners, 3 * (i + k));
      });
      b.sub(a).cross(c.sub(a)).toArray(own, i);
      for (let k = 0; k < 3; k++) for (let j = 0; j < 3; j++) at[3 * faces[i + k] + j] += own[i + j];
    }
    for (let i = 0; i < n; i++) {
      a.fromArray(own, 3 * Math.floor(i / 3)).normalize();
      b.fromArray(at, 3 * faces[i]).normalize();
      (a.dot(b) > Math.cos(0.6) ? b : a).toArray(normals, 3 * i);
    }
    const made = new THREE.BufferGeometry();
    made.setAttribute("position", new THREE.BufferAttribute(corners, 3));
    made.setAttribute("normal", new THREE.BufferAttribute(normals, 3));
    return made;
  }

  const materials = new Map();
  function material(color, faint) {
    const key = color + faint;
    if (!materials.has(key)) {
      const look = { color, roughness: 0.55, metalness: 0.05, side: 2 };
      const thin = faint ? { transparent: true, opacity: 0.28, depthWrite: false } : {};
      materials.set(key, new THREE.MeshStandardMaterial({ ...look, ...thin }));
    }
    return materials.get(key);
  }

  const meshes = data.meshes.map(geometry), rods = [], arrows = [], traces = [];
  const built = (mesh, color, faint) => {
    const made = new THREE.Mesh(mesh, material(color, faint));
    made.castShadow = !faint;
    return made;
  };
  const groups = Array.from({ length: members * bodies }, () => new THREE.Group());
  for (let m = 0; m < members; m++) {
    const faint = data.faint && m > 0, of = (body) => groups[m * bodies + body];
    for (const [mesh, body, T, color, layer] of data.solids) {
      const made = built(meshes[mesh], color, faint);
      made.matrixAutoUpdate = false;
      made.matrix.set(...T, 0, 0, 0, 1);
      made.castShadow &&= layer === "bodies";
      show(layer, made);
      of(body).add(made);
    }
    for (const [a, onA, b, onB, radius, color] of data.rods) {
      const made = built(meshes[data.cylinder], color, faint);
      made.scale.set(radius, radius, 1);
      rods.push({ made, ends: [[of(a), onA], [of(b), onB]] });
      show("bodies", made);
      scene.add(made);
    }
    data.forces.forEach(([body, point, place]) => {
      const made = built(meshes[data.arrowhead], "#d2341f", faint);
      arrows.push({ made, at: [of(body), point], forces: numbers(place), first: m * frames });
      show("forces", made);
      scene.add(made);
    });
    for (const [body, point] of data.traces) {
      const points = new Float32Array(3 * frames), x = new THREE.Vector3(), q = new THREE.Quaternion();
      for (let k = 0; k < frames; k++) {
        const at = 7 * ((m * frames + k) * bodies + body);
        q.set(poses[at + 4], poses[at + 5], poses[at + 6], poses[at + 3]);
        x.fromArray(point).applyQuaternion(q);
        points.set([x.x + poses[at], x.y + poses[at + 1], x.z + poses[at + 2]], 3 * k);
      }
      const made = new THREE.BufferGeometry();
      made.setAttribute("position", new THREE.BufferAttribute(points, 3));
      const line = new THREE.Line(made, new THREE.LineBasicMaterial({ color: faint ? "#e3b98f" : "#c8641e" }));
      line.frustumCulled = false;
      traces.push(made);
      show("traces", line);
      scene.add(line);
    }
  }
  groups.forEach((group) => scene.add(group));

  const sun = new THREE.DirectionalLight("#ffffff", 2.4), reach = 3 * size;
  sun.castShadow = true;
  sun.shadow.mapSize.set(2048, 2048);
  sun.shadow.bias = -0.0005;
  sun.shadow.normalBias = 0.01 * size;
  Object.assign(sun.shadow.camera, { left: -reach, right: reach, top: reach, bottom: -reach, far: 12 * size });
  scene.add(sun, sun.target, new THREE.HemisphereLight("#ffffff", "#c4cad2", 2.1));

  const ground = new THREE.Group();
  if (data.floor !== null) {
    const cells = 2 * Math.ceil((12 * size) / cell), square = new THREE.PlaneGeometry(cells * cell, cells * cell);
    const tile = Object.assign(document.createElement("canvas"), { width: 256, height: 256 });
    const brush = tile.getContext("2d");
    brush.fillStyle = "#f4f6f8";
    brush.fillRect(0, 0, 256, 256);
    brush.strokeStyle = "#cfd6dd";
    brush.lineWidth = 5;
    brush.strokeRect(0, 0, 256, 256);
    const map = new THREE.CanvasTexture(tile);
    map.colorSpace = THREE.SRGBColorSpace;
    map.wrapS = map.wrapT = THREE.RepeatWrapping;
    map.repeat.set(cells, cells);
    map.anisotropy = renderer.capabilities.getMaxAnisotropy();
    const grid = new THREE.Mesh(square, new THREE.MeshBasicMaterial({ map, side: 2 }));
    const shade = new THREE.Mesh(square, new THREE.ShadowMaterial({ opacity: 0.2, depthWrite: false }));
    shade.receiveShadow = true;
    shade.position.z = -0.002 * size;
    grid.position.z = -0.004 * size;
    ground.add(grid, shade);
    show("floor", ground);
    scene.add(ground);
    const far = Math.hypot(...data.camera.from);
    scene.fog = new THREE.Fog("#f4f6f8", far + 2 * size, far + 9 * size);
  }

  // -- one moment -----------------------------------------------------------------------------------------

  const camera = new THREE.PerspectiveCamera(data.camera.opening, 1, 0.02 * size, 300 * size);
  camera.up.set(0, 0, 1);
  const controls = new THREE.OrbitControls(camera, renderer.domElement), away = new THREE.Vector3();
  const u = new THREE.Vector3(), w = new THREE.Vector3(), Z = new THREE.Vector3(0, 0, 1);
  const q0 = new THREE.Quaternion(), q1 = new THREE.Quaternion();
  let now = times[0];

  function between(array, k, s, width, first = 0) {
    const a = width * (first + k), b = width * (first + Math.min(k + 1, last));
    return u.set(...[0, 1, 2].map((i) => array[a + i] + s * (array[b + i] - array[a + i])));
  }

  function place(t) {
    let low = 0, high = last;
    while (high - low > 1) [low, high] = times[(low + high) >> 1] <= t ? [(low + high) >> 1, high] : [low, (low + high) >> 1];
    const k = t >= times[last] ? last : low, next = Math.min(k + 1, last);
    const s = next > k ? (t - times[k]) / (times[next] - times[k]) : 0;
    groups.forEach((group, i) => {
      const m = Math.floor(i / bodies), a = 7 * ((m * frames + k) * bodies + (i % bodies));
      const b = 7 * ((m * frames + next) * bodies + (i % bodies));
      group.position.set(...[0, 1, 2].map((j) => poses[a + j] + s * (poses[b + j] - poses[a + j])));
      q0.set(poses[a + 4], poses[a + 5], poses[a + 6], poses[a + 3]);
      q1.set(poses[b + 4], poses[b + 5], poses[b + 6], poses[b + 3]);
      group.quaternion.copy(q0.slerp(q1, s));
      group.updateMatrixWorld();
    });
    for (const { made, ends: [a, b] } of rods) {
      a[0].localToWorld(u.fromArray(a[1]));
      b[0].localToWorld(w.fromArray(b[1]));
      made.position.addVectors(u, w).multiplyScalar(0.5);
      made.scale.z = Math.max(w.sub(u).length(), 1e-9);
      made.quaternion.setFromUnitVectors(Z, w.normalize());
    }
    for (const { made, at, forces, first } of arrows) {
      const F = between(forces, k, s, 3, first), length = Math.min(data.arrow * F.length(), data.size);
      made.scale.setScalar(Math.max(length, 1e-9));
      made.quaternion.setFromUnitVectors(Z, F.normalize());
      at[0].localToWorld(made.position.fromArray(at[1]));
    }
    traces.forEach((trace) => trace.setDrawRange(0, k + 1));
    const goal = between(path, k, s, 3);
    camera.position.add(away.subVectors(goal, controls.target));
    controls.target.copy(goal);
    sun.target.position.copy(goal);
    sun.position.set(1.5, -2, 4).multiplyScalar(size).add(goal);
    ground.position.set(Math.round(goal.x / cell) * cell, Math.round(goal.y / cell) * cell, data.floor ?? 0);
    now = t;
    $("time").value = t;
    $("clock").textContent = `${t.toFixed(digits)} s`;
    mark(t);
  }

  // -- energies over time ---------------------------------------------------------------------------------

  const curves = Object.entries(data.energies).map(([name, place]) => [name, numbers(place)]);
  const plot = $("plot"), pen = plot.getContext("2d"), W = 250, H = 134;
  let drawn = null;
  function drawCurves() {
    if (curves.length > 1) curves.push(["total", curves[0][1].map((x, k) => x + curves[1][1][k])]);
    const ratio = window.devicePixelRatio, all = curves.flatMap(([, y]) => [...y]);
    const low = all.reduce((a, b) => Math.min(a, b)), high = all.reduce((a, b) => Math.max(a, b));
    plot.hidden = false;
    Object.assign(plot, { width: W * ratio, height: H * ratio });
    Object.assign(plot.style, { width: `${W}px`, height: `${H}px` });
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    curves.forEach(([name, y], i) => {
      pen.fillStyle = pen.strokeStyle = ["#d55e00", "#0072b2", "#444444"][i];
      pen.fillText(name, 6 + 62 * i, 12);
      pen.beginPath();
      y.forEach((x, k) => pen.lineTo(across(times[k]), H - 6 - (H - 40) * ((x - low) / (high - low || 1))));
      pen.stroke();
    });
    pen.fillStyle = "#5b6470";
    pen.fillText(`${low.toPrecision(3)} to ${high.toPrecision(3)} J`, 6, 26);
    drawn = pen.getImageData(0, 0, plot.width, plot.height);
  }
  const across = (t) => 5 + (W - 10) * ((t - times[0]) / (times[last] - times[0]));
  function mark(t) {
    if (!drawn) return;
    pen.putImageData(drawn, 0, 0);
    pen.fillStyle = "#1b1f2480";
    pen.fillRect(across(t), 32, 1, H - 36);
  }

  // -- hands ----------------------------------------------------------------------------------------------

  for (const [layer, objects] of layers) {
    const tick = Object.assign(document.createElement("input"), { type: "checkbox" });
    tick.checked = data.shown.includes(layer);
    tick.onchange = () => objects.forEach((object) => (object.visible = tick.checked));
    const label = document.createElement("label");
    label.append(tick, ` ${layer}`);
    $("layers").append(label);
  }
  const duration = times[last] - times[0], digits = duration < 1 ? 3 : 2;
  const SPEEDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];
  const usual = duration >= 1.5 && duration <= 60 ? 1 : SPEEDS.findLast((x) => duration / x > 4) ?? SPEEDS[0];
  SPEEDS.forEach((x) => $("speed").append(new Option(`${x} x`, x, x === usual, x === usual)));
  const asked = /t=([-+.\deE]+)/.exec(location.hash);
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let playing = frames > 1 && !asked && !still, before = null;
  const turn = (on) => {
    playing = on;
    before = null;
    $("play").textContent = on ? "\u275a\u275a" : "\u25b6";
  };
  $("play").onclick = () => turn(!playing);
  Object.assign($("time"), { min: times[0], max: times[last] });
  $("time").oninput = () => (turn(false), place(Number($("time").value)));
  $("bar").hidden = frames < 2;
  window.onkeydown = (event) => {
    if (event.target !== document.body && event.target !== renderer.domElement) return;
    if (event.key === " ") turn(!playing);
    else if (!orbit(event.key)) return;
    event.preventDefault();
  };

  // Keys turn the camera about its target by 5 degrees, or zoom by 10 percent. Returns whether the key does.
  function orbit(key) {
    const [around, over, zoom] = { ArrowLeft: [-1, 0, 1], ArrowRight: [1, 0, 1], ArrowUp: [0, 1, 1],
      ArrowDown: [0, -1, 1], "+": [0, 0, 0.9], "-": [0, 0, 1 / 0.9] }[key] ?? [0, 0, 0];
    if (!zoom) return false;
    const step = Math.PI / 36, from = camera.position.clone().sub(controls.target);
    const height = Math.asin(from.z / from.length()), highest = Math.PI / 2 - 0.01;
    const rise = Math.min(Math.max(height + over * step, -highest), highest) - height;
    from.applyAxisAngle(from.clone().cross(Z).normalize(), rise).applyAxisAngle(Z, around * step);
    camera.position.copy(from.multiplyScalar(zoom).add(controls.target));
    return true;
  }

  function fit() {
    const aspect = innerWidth / innerHeight;
    renderer.setSize(innerWidth, innerHeight);
    Object.assign(camera, { aspect });
    camera.updateProjectionMatrix();
  }
  controls.target.set(path[0], path[1], path[2]);
  camera.position.fromArray(data.camera.from).multiplyScalar(Math.max(1, (1.5 * innerHeight) / innerWidth));
  camera.position.add(controls.target);
  window.onresize = fit;
  fit();
  if (curves.length && frames > 1) drawCurves();
  turn(playing);
  place(asked ? Number(asked[1]) : times[0]);
  renderer.setAnimationLoop((clock) => {
    if (playing) {
      const t = now + (before === null ? 0 : ((clock - before) / 1000) * Number($("speed").value));
      before = clock;
      place(t > times[last] ? times[0] : t);
    }
    controls.update();
    renderer.render(scene, camera);
  });
})();
