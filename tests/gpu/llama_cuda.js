// llama.cpp with CUDA as node-llama-cpp ships it, a model and a context: node llama_cuda.js FOLDER_OF_ITS_LIBRARIES MODEL.gguf
// Nothing is decoded: its kernels are not built for every card.
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
})();
