import { defineConfig } from "vitest/config";

// The names of the files have no hash: kubectl drover sends them with "no-cache" and an entity tag, and a change of the sources changes few files.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../internal/cli/ui/dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: { entryFileNames: "app.js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
    },
  },
  // One thread is enough, and a busy machine must not fail a test.
  test: { pool: "threads", isolate: false, fileParallelism: false, testTimeout: 60_000 },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
