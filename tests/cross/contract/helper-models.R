smollm2 <- function() {
  the$smollm2 <- the$smollm2 %||%
    model_load(Sys.getenv("LLAMAHERD_TEST_SMOLLM2"))
  the$smollm2
}

gemma3 <- function() {
  the$gemma3 <- the$gemma3 %||% model_load(Sys.getenv("LLAMAHERD_TEST_GEMMA3"))
  the$gemma3
}

local_context <- function(
  ...,
  model = smollm2(),
  n_threads = 1L,
  env = parent.frame()
) {
  context <- context_create(model, ..., n_threads = n_threads)
  withr::defer(close(context), envir = env)
  context
}

chat <- function(text) {
  vapply(
    text,
    \(text) {
      apply_chat_template(smollm2(), list(list(role = "user", content = text)))
    },
    character(1)
  )
}

topics <- c(
  "cats",
  "the sea",
  "bread",
  "Paris",
  "winter",
  "trains",
  "music",
  "the moon"
)

# Returns the answer to each prompt in a separate context.
alone <- function(prompts, ...) {
  vapply(
    prompts,
    \(prompt) {
      context <- local_context(n_ctx = "auto", env = environment())
      as.character(generate(context, prompt, ...))
    },
    character(1)
  )
}

stats_of <- function(answers) unclass(attr(answers, "stats"))
