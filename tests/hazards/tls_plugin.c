/* A library whose thread-local storage must lie in the room that the loader keeps for such. */
static __thread long g_words[8] __attribute__((tls_model("initial-exec")));
__attribute__((visibility("default"))) long* words(void);
long* words(void) { return g_words; }
