# Many prompts in one context, in a script for localLLM in which only library() and the model's path
# were changed. The path is in LLAMAHERD_TEST_SMOLLM2.
library(llamaherd)

backend_init()
model <- model_load(
  Sys.getenv("LLAMAHERD_TEST_SMOLLM2"),
  n_gpu_layers = 0L,
  use_mmap = TRUE,
  verbosity = 0L
)
context <- context_create(model, n_ctx = 4096L, n_threads = 1L, n_seq_max = 8L)

topics <- c("rivers", "trains", "bread", "winter", "music")
prompts <- sapply(topics, function(topic) {
  apply_chat_template(
    model,
    list(
      list(role = "system", content = "You are a helpful assistant."),
      list(role = "user", content = paste("Say one sentence about", topic))
    )
  )
})
answers <- generate_parallel(
  context,
  prompts,
  max_tokens = 20L,
  top_k = 40L,
  top_p = 1.0,
  temperature = 0.0,
  repeat_last_n = 0L,
  penalty_repeat = 1.0,
  seed = 1234L,
  progress = FALSE,
  clean = TRUE
)
stopifnot(length(answers) == 5, all(nchar(answers) > 0))

single <- generate(
  context,
  prompts[[1]],
  max_tokens = 20L,
  clean = TRUE,
  hash = FALSE
)
stopifnot(as.vector(single) == answers[[1]])

tokens <- tokenize(model, "Hello, world!")
stopifnot(detokenize(model, tokens) != "", length(tokenize_test(model)) >= 1)
data <- data.frame(topic = topics, answer = as.vector(answers))
print(data)

one <- quick_llama("Name a river.", model_path = model$path, max_tokens = 10L)
several <- quick_llama(
  c("Name a river.", "Name a lake."),
  model$path,
  max_tokens = 10L
)
stopifnot(length(one) == 1, length(several) == 2, one == several[[1]])
quick_llama_reset()
backend_free()
cat("parallel: done\n")
