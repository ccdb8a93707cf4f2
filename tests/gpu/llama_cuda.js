// llama.cpp with CUDA as node-llama-cpp ships it: node llama_cuda.js FOLDER_OF_ITS_LIBRARIES MODEL.gguf
const [folder, path] = process.argv.slice(2);
const llama = require(folder + '/llama-addon.node');
(async () => {
  llama.setLoggerLogLevel(1);
  llama.loadBackends(folder);
  await llama.init();
  const model = new llama.AddonModel(path, {addonExports: llama, useMmap: false, gpuLayers: 99});
  await model.init();
  const context = new llama.AddonContext(model, {contextSize: 4096, batchSize: 512, sequences: 1, threads: 1});
  await context.init();
  console.log('model', JSON.stringify(model.getMemoryBreakdown()), 'context', JSON.stringify(context.getMemoryBreakdown()));
  for (let i = 0; i < 3; ++i) {
    context.initBatch(5);
    context.addToBatch(0, 5 * i, Uint32Array.from([1, 5, 6, 7, 8]), Uint32Array.from([4]));
    await context.decodeBatch();
  }
})();
