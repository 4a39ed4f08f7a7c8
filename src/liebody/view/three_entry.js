// What scene.js uses of three.js: `make three` bundles it into vendor/three.min.js.
export {
  BufferAttribute, BufferGeometry, CanvasTexture, Color, DirectionalLight, Fog, Group,
  HemisphereLight, Line, LineBasicMaterial, Mesh, MeshBasicMaterial, MeshStandardMaterial,
  PerspectiveCamera, PlaneGeometry, Quaternion, RepeatWrapping, SRGBColorSpace, Scene,
  ShadowMaterial, Vector3, WebGLRenderer,
} from "three";
export { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";
