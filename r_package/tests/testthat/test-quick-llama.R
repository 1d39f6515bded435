local_quick <- function(env = parent.frame()) {
  fake <- local_fake(env)
  path <- local_model_file(env)
  withr::defer(the$quick <- NULL, envir = env)
  withr::local_options(llamaherd.model = path, .local_envir = env)
  fake
}

test_that("one question, one answer; many, as many", {
  local_quick()
  answer <- quick_llama("Hello")
  expect_identical(as.vector(answer), "Hello!")
  expect_seen("model_start", "'chat': True, 'system': 'You are a helpful assistant.'")
  expect_message(
    plain <- quick_llama("Hello", system_prompt = "no template"),
    "has no chat template"
  )
  expect_identical(as.vector(plain), "Hello!")
  expect_refused(quick_llama("a", system_prompt = "no template", thinking = 9))
  expect_null(names(answer))
  expect_identical(attr(answer, "hashes")$output, sha256(as.vector(answer)))
  answers <- quick_llama(c(a = "x", b = "y"), auto_format = FALSE, hash = FALSE)
  expect_identical(answers, c(a = "x!", b = "y!"))
  many <- quick_llama(sprintf("p%d", 1:300), auto_format = FALSE, hash = FALSE)
  expect_identical(unname(many), sprintf("p%d!", 1:300))
  expect_warning(
    some <- quick_llama(c("x", NA), auto_format = FALSE, hash = FALSE),
    "1 of 2 prompts failed"
  )
  expect_identical(some, c(prompt_1 = "x!", prompt_2 = NA))
})

test_that("model and context are kept until something changes", {
  local_quick()
  quick_llama("a")
  first <- the$quick$context
  quick_llama("b", max_tokens = 3, temperature = 0.5, stop = "x", top_n_sigma = 1)
  expect_identical(the$quick$context, first)
  expect_seen("model_start", "'max_tokens': 3")
  expect_seen("model_start", "'top_n_sigma'")
  quick_llama("c", n_ctx = 512)
  expect_false(identical(the$quick$context, first))
  expect_error(generate(first, "x"), "is closed")
  expect_message(expect_null(quick_llama_reset()), "has released its model")
  expect_null(the$quick)
  expect_message(quick_llama_reset())
})

test_that("without a model the largest chat model of the cache is taken, and said", {
  local_quick()
  withr::local_options(llamaherd.model = NULL)
  expect_message(path <- default_model(0L), "small-Instruct.gguf.*largest chat")
  expect_identical(path, "/cache/small-Instruct.gguf")
  expect_silent(default_model(-1L))
})

test_that("nothing is downloaded without a word", {
  local_quick()
  withr::local_options(llamaherd.model = NULL)
  before <- the$module$seen("fetch_start")
  none <- data.frame(name = character(), path = character(), size_bytes = double())
  expect_refused(default_model(0L, none))
  expect_identical(the$module$seen("fetch_start"), before)
})

test_that("wrong questions are refused before a model is loaded", {
  local_quick()
  expect_refused({
    quick_llama(NULL)
    quick_llama(character())
    quick_llama(c("a", ""))
    quick_llama(data.frame(a = 1))
    quick_llama("a", no_such = 1)
    quick_llama("a", system_prompt = 1)
  })
  expect_null(the$quick)
})

test_that("templates for Gemma", {
  messages <- list(
    list(role = "system", content = "Be brief. "),
    list(role = "user", content = " Hi "),
    list(role = "assistant", content = "Yes?"),
    list(role = "user", content = "Bye")
  )
  expect_identical(
    apply_gemma_chat_template(messages),
    paste0(
      "<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n",
      "<start_of_turn>model\nYes?<end_of_turn>\n",
      "<start_of_turn>user\nBye<end_of_turn>\n",
      "<start_of_turn>model\n"
    )
  )
  alone <- apply_gemma_chat_template(messages[1], add_assistant = FALSE)
  expect_identical(alone, "<start_of_turn>user\nBe brief.<end_of_turn>\n")
  expect_error(apply_gemma_chat_template(list()), class = "llamaherd_error_argument")
  model <- local_context()$model
  expect_identical(
    smart_chat_template(model, messages[2]),
    apply_chat_template(model, messages[2])
  )
  expect_identical(tokenize_test(model), tokenize(model, "H"))
})
