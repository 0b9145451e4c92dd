--
-- PostgreSQL database dump
--


-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: vector; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;


--
-- Name: EXTENSION vector; Type: COMMENT; Schema: -; Owner: -
--

COMMENT ON EXTENSION vector IS 'vector data type and ivfflat and hnsw access methods';


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: checkpoints; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.checkpoints (
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    thread_id character varying(510) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    checkpoint_id character varying(255) NOT NULL COLLATE pg_catalog."C",
    parent_id character varying(255) COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    run_id character varying(255) COLLATE pg_catalog."C",
    meta jsonb NOT NULL,
    raw_size bigint NOT NULL,
    stored_size bigint NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL
);


--
-- Name: deltas; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.deltas (
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    thread_id character varying(510) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    kind character varying(16) NOT NULL,
    entry_key character varying(128) COLLATE pg_catalog."C",
    parent_seq bigint,
    base_seq bigint,
    depth integer NOT NULL,
    since_bytes bigint NOT NULL,
    raw_size bigint NOT NULL,
    codec character varying(16) NOT NULL,
    checksum bigint NOT NULL,
    label character varying(255) COLLATE pg_catalog."C",
    sort_key character varying(255) COLLATE pg_catalog."C",
    status smallint NOT NULL,
    search_text text,
    occurred_at timestamp with time zone NOT NULL,
    stored_at timestamp with time zone NOT NULL,
    payload bytea NOT NULL
);
ALTER TABLE ONLY public.deltas ALTER COLUMN payload SET STORAGE EXTERNAL;


--
-- Name: embeddings; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.embeddings (
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    key character varying(255) NOT NULL COLLATE pg_catalog."C",
    field character varying(128) NOT NULL COLLATE pg_catalog."C",
    model character varying(128) NOT NULL COLLATE pg_catalog."C",
    part integer NOT NULL,
    dimensions integer NOT NULL,
    change bigint NOT NULL,
    vector public.vector NOT NULL
);


--
-- Name: memalchemy_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.memalchemy_version (
    version_num character varying(32) NOT NULL
);


--
-- Name: store_items; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.store_items (
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    key character varying(255) NOT NULL COLLATE pg_catalog."C",
    meta jsonb NOT NULL,
    version bigint NOT NULL,
    codec character varying(16) NOT NULL,
    checksum bigint NOT NULL,
    search_text text,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    value bytea NOT NULL
);


--
-- Name: threads; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.threads (
    tenant character varying(64) NOT NULL COLLATE pg_catalog."C",
    thread_id character varying(510) NOT NULL COLLATE pg_catalog."C",
    namespace character varying(512) NOT NULL COLLATE pg_catalog."C",
    next_seq bigint NOT NULL,
    version bigint NOT NULL,
    epoch bigint NOT NULL,
    head_id character varying(255) COLLATE pg_catalog."C",
    previous_id character varying(255) COLLATE pg_catalog."C",
    meta jsonb NOT NULL,
    forked_thread character varying(510) COLLATE pg_catalog."C",
    forked_seq bigint,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    deleted_at timestamp with time zone
)
WITH (fillfactor='70');


--
-- Data for Name: checkpoints; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'c128cdf5f9814b1ba785eff1bb206787', NULL, 1, NULL, '{"step": 0, "colour": "blue"}', 71, 77, '2026-11-21 23:13:37.00511+00', '2026-11-21 23:13:37.00511+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'bfb21d6070b74e6895afeefc263a25fa', 'c128cdf5f9814b1ba785eff1bb206787', 2, NULL, '{"step": 1, "colour": "blue"}', 133, 43, '2026-11-21 23:13:37.02504+00', '2026-11-21 23:13:37.02504+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'f031487d1ab342cc898844488cbcfe3a', 'bfb21d6070b74e6895afeefc263a25fa', 3, NULL, '{"step": 2, "colour": "blue"}', 190, 107, '2026-11-21 23:13:37.032957+00', '2026-11-21 23:13:37.032957+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '3c1175f9ed104a48b44c74bc96de3e27', 'f031487d1ab342cc898844488cbcfe3a', 4, NULL, '{"step": 3, "colour": "blue"}', 252, 31, '2026-11-21 23:13:37.03475+00', '2026-11-21 23:13:37.03475+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '94df56f9d1704457a4a82eb16808ef11', '3c1175f9ed104a48b44c74bc96de3e27', 5, NULL, '{"step": 4, "colour": "blue"}', 309, 35, '2026-11-21 23:13:37.036525+00', '2026-11-21 23:13:37.036525+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'b140d67eaaaf4667b280adc0e09bda86', '94df56f9d1704457a4a82eb16808ef11', 6, NULL, '{"step": 5, "colour": "blue"}', 371, 31, '2026-11-21 23:13:37.03798+00', '2026-11-21 23:13:37.03798+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'd1626fc9b257466cab320b7bcaa024a2', 'b140d67eaaaf4667b280adc0e09bda86', 7, NULL, '{"step": 6, "colour": "blue"}', 428, 123, '2026-11-21 23:13:37.039435+00', '2026-11-21 23:13:37.039435+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'fae9e97a57de4d61b7356009636be860', 'd1626fc9b257466cab320b7bcaa024a2', 8, NULL, '{"step": 7, "colour": "red"}', 490, 31, '2026-11-21 23:13:37.040997+00', '2026-11-21 23:13:37.040997+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'beece6653ad0468f9f27d0f0edf75da3', 'fae9e97a57de4d61b7356009636be860', 9, NULL, '{"step": 8, "colour": "blue"}', 547, 35, '2026-11-21 23:13:37.042348+00', '2026-11-21 23:13:37.042348+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'd677d0dae9a1491d841914f33f955865', 'beece6653ad0468f9f27d0f0edf75da3', 10, NULL, '{"step": 9, "colour": "blue"}', 609, 31, '2026-11-21 23:13:37.043778+00', '2026-11-21 23:13:37.043778+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'c6f76c681b424a6487808bac997f25f1', 'd677d0dae9a1491d841914f33f955865', 11, NULL, '{"step": 10, "colour": "blue"}', 668, 142, '2026-11-21 23:13:37.045032+00', '2026-11-21 23:13:37.045032+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '465cdcf7ba95491a8e225a05442b95a3', 'c6f76c681b424a6487808bac997f25f1', 12, NULL, '{"step": 11, "colour": "blue"}', 731, 33, '2026-11-21 23:13:37.046663+00', '2026-11-21 23:13:37.046663+00');
INSERT INTO public.checkpoints VALUES ('stored', 'branched', '/', '6cfb57bbf58949aab5ab4025bae0852b', NULL, 1, NULL, '{}', 12, 16, '2026-11-21 23:13:37.04789+00', '2026-11-21 23:13:37.04789+00');
INSERT INTO public.checkpoints VALUES ('stored', 'branched', '/', '24d167a221de41258062aad6cf8ef544', '6cfb57bbf58949aab5ab4025bae0852b', 2, NULL, '{}', 19, 14, '2026-11-21 23:13:37.050381+00', '2026-11-21 23:13:37.050381+00');
INSERT INTO public.checkpoints VALUES ('stored', 'branched', '/', '3a6a7c1cd87f4e5ab7541880bb0df38c', '6cfb57bbf58949aab5ab4025bae0852b', 3, NULL, '{}', 20, 15, '2026-11-21 23:13:37.05149+00', '2026-11-21 23:13:37.05149+00');
INSERT INTO public.checkpoints VALUES ('stored', 'naïve/ключ/🔑', '/', 'first: 1', NULL, 1, NULL, '{}', 23, 27, '2026-11-21 23:13:37.057891+00', '2026-11-21 23:13:37.057891+00');
INSERT INTO public.checkpoints VALUES ('stored', 'forked', '/', '6cfb57bbf58949aab5ab4025bae0852b', NULL, 1, NULL, '{}', 12, 16, '2026-11-21 23:13:37.04789+00', '2026-11-21 23:13:37.04789+00');


--
-- Data for Name: deltas; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.deltas VALUES ('stored', 'long', '/', 1, 'snapshot', NULL, NULL, NULL, 0, 0, 71, 'zsplice1', -2116258814376876529, NULL, NULL, 0, 'user Message 0 about lighthouses', '2026-11-21 23:13:37.00511+00', '2026-11-21 23:13:37.00511+00', '\x0002086d657373616765733a0473746570015b7b22726f6c65223a2275736572222c22636f6e74656e74223a224d65737361676520302061626f7574206c69676874686f757365732e227d5d30');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 2, 'delta', NULL, NULL, 1, 1, 43, 133, 'zsplice1', -6082455272328919262, NULL, NULL, 0, 'assistant Message 1 about lighthouses', '2026-11-21 23:13:37.02504+00', '2026-11-21 23:13:37.02504+00', '\x00020039013e010000010128b52ffd203fbd0000602c617373697374616e7431310300f00921fceb85ba02');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 3, 'snapshot', NULL, NULL, NULL, 0, 0, 190, 'zsplice1', 2453845409188612933, NULL, NULL, 0, 'user Message 2 about lighthouses', '2026-11-21 23:13:37.032957+00', '2026-11-21 23:13:37.032957+00', '\x0128b52ffd20c40d03003245131ba01973ffffb0671259da42e9bb459b30a180e2affe9aacf7ec262707710adb70bf7e340e0f9e7faa56a5c5ca3e4d6021148391b7e53655d8d8e59f9193a973e34018b90f90c733e19f0b01200600f0891e1680e606e11fb82ac36e507a');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 4, 'delta', NULL, NULL, 3, 1, 31, 252, 'zsplice1', 6634849455795639654, NULL, NULL, 0, 'assistant Message 3 about lighthouses', '2026-11-21 23:13:37.03475+00', '2026-11-21 23:13:37.03475+00', '\x000200b001013e010000010128b52ffd203f5500001033330200f0c9bd0c40');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 5, 'delta', NULL, NULL, 3, 2, 66, 309, 'zsplice1', -1670021021716717604, NULL, NULL, 0, 'user Message 4 about lighthouses', '2026-11-21 23:13:37.036525+00', '2026-11-21 23:13:37.036525+00', '\x000200b0010177010000010128b52ffd2078750000183334340300e093c279f7320401');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 6, 'delta', NULL, NULL, 5, 3, 97, 371, 'zsplice1', 2387789077035499486, NULL, NULL, 0, 'assistant Message 5 about lighthouses', '2026-11-21 23:13:37.03798+00', '2026-11-21 23:13:37.03798+00', '\x000200a702013e010000010128b52ffd203f5500001035350200f049796980');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 7, 'snapshot', NULL, NULL, NULL, 0, 0, 428, 'zsplice1', 4676438146600760531, NULL, NULL, 0, 'user Message 6 about lighthouses', '2026-11-21 23:13:37.039435+00', '2026-11-21 23:13:37.039435+00', '\x0128b52ffd60b20085030072c5141d804b7333b037972d9b436b1d9192451835230ee7fbfe8ae68e8afeff0ac881168a04e2b00ef7ecc74371e1f9a76b9762cdecd3071a836138795dae53888f97fc7372365d3c690024b91f082a4f857f4608810a00e09382f3042456708a403a3d2c01cd0dc23f705586dda0f4');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 8, 'delta', NULL, NULL, 7, 1, 31, 490, 'zsplice1', -8376956408357753631, NULL, NULL, 0, 'assistant Message 7 about lighthouses', '2026-11-21 23:13:37.040997+00', '2026-11-21 23:13:37.040997+00', '\x0002009e03013e010000010128b52ffd203f5500001037370200f049796980');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 9, 'delta', NULL, NULL, 7, 2, 66, 547, 'zsplice1', -7625966617527624831, NULL, NULL, 0, 'user Message 8 about lighthouses', '2026-11-21 23:13:37.042348+00', '2026-11-21 23:13:37.042348+00', '\x0002009e030177010000010128b52ffd2078750000183738380300e093c279e5a50902');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 10, 'delta', NULL, NULL, 9, 3, 97, 609, 'zsplice1', 1939962838799538685, NULL, NULL, 0, 'assistant Message 9 about lighthouses', '2026-11-21 23:13:37.043778+00', '2026-11-21 23:13:37.043778+00', '\x0002009504013e010000010128b52ffd203f5500001039390200f0c9bd0c40');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 11, 'snapshot', NULL, NULL, NULL, 0, 0, 668, 'zsplice1', 2858531425198432555, NULL, NULL, 0, 'user Message 10 about lighthouses', '2026-11-21 23:13:37.045032+00', '2026-11-21 23:13:37.045032+00', '\x0128b52ffd60a2011d0400c40502086d657373616765738e050473746570025b7b22726f6c65223a2275736572222c22636f6e74656e74223a224d20302061626f7574206c69676874686f757365732e227d2c617373697374616e74313233343536373839315d31300e0057842205e70948ace01401e90a4e262049c1790289f5b018342c085fc255c17683d203');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 12, 'delta', NULL, NULL, 11, 1, 33, 731, 'zsplice1', -7954876098577599761, NULL, NULL, 0, 'assistant Message 11 about lighthouses', '2026-11-21 23:13:37.046663+00', '2026-11-21 23:13:37.046663+00', '\x0002008d05013f010100010128b52ffd204065000018313131020033fb617a6982');
INSERT INTO public.deltas VALUES ('stored', 'branched', '/', 1, 'snapshot', NULL, NULL, NULL, 0, 0, 12, 'zsplice1', -489579465227156629, NULL, NULL, 0, 'root', '2026-11-21 23:13:37.04789+00', '2026-11-21 23:13:37.04789+00', '\x00010470617468085b22726f6f74225d');
INSERT INTO public.deltas VALUES ('stored', 'branched', '/', 2, 'delta', NULL, NULL, 1, 1, 14, 19, 'zsplice1', 3660580098293076762, NULL, NULL, 0, 'left', '2026-11-21 23:13:37.050381+00', '2026-11-21 23:13:37.050381+00', '\x000100070107002c226c65667422');
INSERT INTO public.deltas VALUES ('stored', 'branched', '/', 3, 'delta', NULL, NULL, 1, 1, 15, 20, 'zsplice1', 1159537694329068100, NULL, NULL, 0, 'right', '2026-11-21 23:13:37.05149+00', '2026-11-21 23:13:37.05149+00', '\x000100070108002c22726967687422');
INSERT INTO public.deltas VALUES ('stored', 'naïve/ключ/🔑', '/', 1, 'snapshot', NULL, NULL, NULL, 0, 0, 23, 'zsplice1', -7453791308211672345, NULL, NULL, 0, 'Unicode 漢 字', '2026-11-21 23:13:37.057891+00', '2026-11-21 23:13:37.057891+00', '\x000104746578741322c39c6ec3af636f64652c20e6bca2e5ad9722');
INSERT INTO public.deltas VALUES ('stored', 'forked', '/', 1, 'snapshot', NULL, NULL, NULL, 0, 0, 12, 'zsplice1', -489579465227156629, NULL, NULL, 0, 'root', '2026-11-21 23:13:37.04789+00', '2026-11-21 23:13:37.04789+00', '\x00010470617468085b22726f6f74225d');


--
-- Data for Name: embeddings; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: memalchemy_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.memalchemy_version VALUES ('0001');


--
-- Data for Name: store_items; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.store_items VALUES ('~', '/~memalchemy/', 'schema', '{"revision": "0001", "oldest_release": "0.1.0"}', 1, 'none', 0, NULL, '2026-11-21 23:13:36.925133+00', '2026-11-21 23:13:36.925133+00', NULL, '\x2d');


--
-- Data for Name: threads; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.threads VALUES ('stored', 'long', '/', 13, 12, 301026345873866937, '465cdcf7ba95491a8e225a05442b95a3', 'c6f76c681b424a6487808bac997f25f1', '{"step": 0, "colour": "blue"}', NULL, NULL, '2026-11-21 23:13:37.00511+00', '2026-11-21 23:13:37.046663+00', NULL, NULL);
INSERT INTO public.threads VALUES ('stored', 'branched', '/', 4, 3, 4547161992623307740, '3a6a7c1cd87f4e5ab7541880bb0df38c', '24d167a221de41258062aad6cf8ef544', '{}', NULL, NULL, '2026-11-21 23:13:37.04789+00', '2026-11-21 23:13:37.05149+00', NULL, NULL);
INSERT INTO public.threads VALUES ('stored', 'naïve/ключ/🔑', '/', 2, 1, 1252395358181264422, 'first: 1', NULL, '{}', NULL, NULL, '2026-11-21 23:13:37.057891+00', '2026-11-21 23:13:37.057891+00', NULL, NULL);
INSERT INTO public.threads VALUES ('stored', 'deleted', '/', 2, 2, 4033657892952143508, NULL, NULL, '{}', NULL, NULL, '2026-11-21 23:13:37.060452+00', '2026-11-21 23:13:37.060452+00', NULL, '2026-11-21 23:13:37.062667+00');
INSERT INTO public.threads VALUES ('stored', 'forked', '/', 2, 1, 1808298094868570920, '6cfb57bbf58949aab5ab4025bae0852b', NULL, '{}', 'branched', 1, '2026-11-21 23:13:37.071154+00', '2026-11-21 23:13:37.071154+00', NULL, NULL);


--
-- Name: memalchemy_version memalchemy_version_pkc; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.memalchemy_version
    ADD CONSTRAINT memalchemy_version_pkc PRIMARY KEY (version_num);


--
-- Name: checkpoints pk_checkpoints; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT pk_checkpoints PRIMARY KEY (tenant, thread_id, namespace, checkpoint_id);


--
-- Name: deltas pk_deltas; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deltas
    ADD CONSTRAINT pk_deltas PRIMARY KEY (tenant, thread_id, namespace, seq);


--
-- Name: embeddings pk_embeddings; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.embeddings
    ADD CONSTRAINT pk_embeddings PRIMARY KEY (tenant, namespace, key, field, model, part);


--
-- Name: store_items pk_store_items; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.store_items
    ADD CONSTRAINT pk_store_items PRIMARY KEY (tenant, namespace, key);


--
-- Name: threads pk_threads; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.threads
    ADD CONSTRAINT pk_threads PRIMARY KEY (tenant, thread_id, namespace);


--
-- Name: checkpoints uq_checkpoints_tenant_thread_id_namespace_seq; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT uq_checkpoints_tenant_thread_id_namespace_seq UNIQUE (tenant, thread_id, namespace, seq);


--
-- Name: ix_checkpoints_meta; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_checkpoints_meta ON public.checkpoints USING gin (meta jsonb_path_ops);


--
-- Name: ix_checkpoints_run_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_checkpoints_run_id ON public.checkpoints USING btree (tenant, run_id, thread_id) WHERE (run_id IS NOT NULL);


--
-- Name: ix_deltas_base_seq; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_deltas_base_seq ON public.deltas USING btree (tenant, thread_id, namespace, base_seq) WHERE (base_seq IS NOT NULL);


--
-- Name: ix_deltas_search_text; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_deltas_search_text ON public.deltas USING gin (to_tsvector('simple'::regconfig, search_text)) WHERE (search_text IS NOT NULL);


--
-- Name: ix_embeddings_tenant_namespace_model_dimensions; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_embeddings_tenant_namespace_model_dimensions ON public.embeddings USING btree (tenant, namespace, model, dimensions);


--
-- Name: ix_store_items_expires_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_store_items_expires_at ON public.store_items USING btree (expires_at) WHERE (expires_at IS NOT NULL);


--
-- Name: ix_store_items_tenant_namespace_updated_at_key; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_store_items_tenant_namespace_updated_at_key ON public.store_items USING btree (tenant, namespace, updated_at, key);


--
-- Name: ix_threads_expires_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_threads_expires_at ON public.threads USING btree (expires_at) WHERE (expires_at IS NOT NULL);


--
-- Name: ix_threads_tenant_namespace_thread_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_threads_tenant_namespace_thread_id ON public.threads USING btree (tenant, namespace, thread_id);


--
-- Name: uq_deltas_entry_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX uq_deltas_entry_key ON public.deltas USING btree (tenant, entry_key, thread_id, namespace) WHERE (entry_key IS NOT NULL);


--
-- Name: checkpoints fk_checkpoints_threads; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT fk_checkpoints_threads FOREIGN KEY (tenant, thread_id, namespace) REFERENCES public.threads(tenant, thread_id, namespace) ON DELETE CASCADE;


--
-- Name: deltas fk_deltas_threads; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deltas
    ADD CONSTRAINT fk_deltas_threads FOREIGN KEY (tenant, thread_id, namespace) REFERENCES public.threads(tenant, thread_id, namespace) ON DELETE CASCADE;


--
-- Name: embeddings fk_embeddings_store_items; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.embeddings
    ADD CONSTRAINT fk_embeddings_store_items FOREIGN KEY (tenant, namespace, key) REFERENCES public.store_items(tenant, namespace, key) ON DELETE CASCADE;


--
-- PostgreSQL database dump complete
--


