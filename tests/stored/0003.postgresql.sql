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
ALTER TABLE ONLY public.embeddings ALTER COLUMN vector SET STORAGE MAIN;


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
    value bytea NOT NULL,
    lifetime bigint,
    field_terms text
);
ALTER TABLE ONLY public.store_items ALTER COLUMN value SET STORAGE EXTERNAL;


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

INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '5bab71dee95c4cbfb9aebbcfde32d8de', NULL, 1, NULL, '{"step": 0, "colour": "blue"}', 62, 70, '2026-11-23 00:32:50.562649+00', '2026-11-23 00:32:50.562649+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'abd97237ce4948a188b49f8137663267', '5bab71dee95c4cbfb9aebbcfde32d8de', 2, NULL, '{"step": 1, "colour": "blue"}', 115, 38, '2026-11-23 00:32:50.609097+00', '2026-11-23 00:32:50.609097+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '56aeeced7283427486ced928c6293dc7', 'abd97237ce4948a188b49f8137663267', 3, NULL, '{"step": 2, "colour": "blue"}', 163, 44, '2026-11-23 00:32:50.626277+00', '2026-11-23 00:32:50.626277+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '50f3f5a84bed4742a8d1da7a1863a61e', '56aeeced7283427486ced928c6293dc7', 4, NULL, '{"step": 3, "colour": "blue"}', 216, 27, '2026-11-23 00:32:50.628581+00', '2026-11-23 00:32:50.628581+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'ce790126067a4125a61430ea04e869ad', '50f3f5a84bed4742a8d1da7a1863a61e', 5, NULL, '{"step": 4, "colour": "blue"}', 264, 54, '2026-11-23 00:32:50.630846+00', '2026-11-23 00:32:50.630846+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'edfd7decd1a846519dd375c63ef7f4f0', 'ce790126067a4125a61430ea04e869ad', 6, NULL, '{"step": 5, "colour": "blue"}', 317, 27, '2026-11-23 00:32:50.633088+00', '2026-11-23 00:32:50.633088+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'a8d42dde8da14ff3b657b87e3077b18f', 'edfd7decd1a846519dd375c63ef7f4f0', 7, NULL, '{"step": 6, "colour": "blue"}', 365, 31, '2026-11-23 00:32:50.635285+00', '2026-11-23 00:32:50.635285+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '21cfabe0d25441ca9f1e656b29aaac0d', 'a8d42dde8da14ff3b657b87e3077b18f', 8, NULL, '{"step": 7, "colour": "red"}', 418, 28, '2026-11-23 00:32:50.637235+00', '2026-11-23 00:32:50.637235+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', '94aa606dbf5b4b7daff6c5352851c8c5', '21cfabe0d25441ca9f1e656b29aaac0d', 9, NULL, '{"step": 8, "colour": "blue"}', 466, 69, '2026-11-23 00:32:50.638953+00', '2026-11-23 00:32:50.638953+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'e300d971eb6a4e1285c039adea6643b8', '94aa606dbf5b4b7daff6c5352851c8c5', 10, NULL, '{"step": 9, "colour": "blue"}', 519, 28, '2026-11-23 00:32:50.640547+00', '2026-11-23 00:32:50.640547+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'de5a9eb4f69942c296ebd32c80c7210b', 'e300d971eb6a4e1285c039adea6643b8', 11, NULL, '{"step": 10, "colour": "blue"}', 568, 35, '2026-11-23 00:32:50.642136+00', '2026-11-23 00:32:50.642136+00');
INSERT INTO public.checkpoints VALUES ('stored', 'long', '/', 'f3e110d3c5b644a1a39fdda70f7abbbd', 'de5a9eb4f69942c296ebd32c80c7210b', 12, NULL, '{"step": 11, "colour": "blue"}', 622, 30, '2026-11-23 00:32:50.643654+00', '2026-11-23 00:32:50.643654+00');
INSERT INTO public.checkpoints VALUES ('stored', 'branched', '/', '6652eaf57cb04eb9902f268eb488271a', NULL, 1, NULL, '{}', 10, 16, '2026-11-23 00:32:50.645199+00', '2026-11-23 00:32:50.645199+00');
INSERT INTO public.checkpoints VALUES ('stored', 'branched', '/', '78d9697de1294710bd499731dd4f84d4', '6652eaf57cb04eb9902f268eb488271a', 2, NULL, '{}', 15, 19, '2026-11-23 00:32:50.648214+00', '2026-11-23 00:32:50.648214+00');
INSERT INTO public.checkpoints VALUES ('stored', 'branched', '/', 'c11d6615a12744e9afdbf55e7fb805c2', '6652eaf57cb04eb9902f268eb488271a', 3, NULL, '{}', 16, 20, '2026-11-23 00:32:50.664221+00', '2026-11-23 00:32:50.664221+00');
INSERT INTO public.checkpoints VALUES ('stored', 'naïve/ключ/🔑', '/', 'first: 1', NULL, 1, NULL, '{}', 22, 28, '2026-11-23 00:32:50.679722+00', '2026-11-23 00:32:50.679722+00');
INSERT INTO public.checkpoints VALUES ('stored', 'forked', '/', '6652eaf57cb04eb9902f268eb488271a', NULL, 1, NULL, '{}', 10, 16, '2026-11-23 00:32:50.645199+00', '2026-11-23 00:32:50.645199+00');


--
-- Data for Name: deltas; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.deltas VALUES ('stored', 'long', '/', 1, 'snapshot', NULL, NULL, NULL, 0, 0, 62, 'zsplice2', -5220018858302444078, NULL, NULL, 0, 'user Message 0 about lighthouses', '2026-11-23 00:32:50.562649+00', '2026-11-23 00:32:50.562649+00', '\x029b72842337b5b838313db5f888e1c4a62545f939a94b4a8b538b9627e7e795a4e695ecf185482b18282426e5979628e464a6679464e403d514eb1d61292e492d38c2c80000');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 2, 'delta', NULL, NULL, 1, 1, 38, 115, 'zsplice2', 2164582719802592583, NULL, NULL, 0, 'assistant Message 1 about lighthouses', '2026-11-23 00:32:50.609097+00', '2026-11-23 00:32:50.609097+00', '\x93c09b0002000101300035010001c416029b04d1b132b1b838b3b82431af04439b21166d8c00');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 3, 'delta', NULL, NULL, 1, 2, 82, 163, 'zsplice2', -3585803149665555811, NULL, NULL, 0, 'user Message 2 about lighthouses', '2026-11-23 00:32:50.626277+00', '2026-11-23 00:32:50.626277+00', '\x93c09b0002000101300065010001c41c029b0cd1b132b1b838b3b82431af04439b21166df8ac31c2a29e0900');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 4, 'delta', NULL, NULL, 3, 3, 109, 216, 'zsplice2', -2741357690802086913, NULL, NULL, 0, 'assistant Message 3 about lighthouses', '2026-11-23 00:32:50.628581+00', '2026-11-23 00:32:50.628581+00', '\x93c09b0002000101cc950035010001c40a029b42d01a632cda9801');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 5, 'delta', NULL, NULL, 1, 4, 163, 264, 'zsplice2', -2379094212971022114, NULL, NULL, 0, 'user Message 4 about lighthouses', '2026-11-23 00:32:50.630846+00', '2026-11-23 00:32:50.630846+00', '\x93c09b00020001013000ccca010001c425029b0ad1b132b1b838b3b82431af04439b21166df8ac31c2a91e8f25c6245a6282453d0b00');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 6, 'delta', NULL, NULL, 5, 5, 190, 317, 'zsplice2', 3051637832047253237, NULL, NULL, 0, 'assistant Message 5 about lighthouses', '2026-11-23 00:32:50.633088+00', '2026-11-23 00:32:50.633088+00', '\x93c09b0002000101ccfa0035010001c40a029b46d01a532cda5801');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 7, 'delta', NULL, NULL, 5, 6, 221, 365, 'zsplice2', 5090166542866953870, NULL, NULL, 0, 'user Message 6 about lighthouses', '2026-11-23 00:32:50.635285+00', '2026-11-23 00:32:50.635285+00', '\x93c09b0002000101ccfa0065010001c40e029b4ed01a5312ad31c3a29e0d00');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 8, 'delta', NULL, NULL, 7, 7, 249, 418, 'zsplice2', -418956110107325747, NULL, NULL, 0, 'assistant Message 7 about lighthouses', '2026-11-23 00:32:50.637235+00', '2026-11-23 00:32:50.637235+00', '\x93c09b0002000101cd015f0035010001c40a029b41d01a732cdad801');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 9, 'delta', NULL, NULL, 1, 8, 318, 466, 'zsplice2', -8528191688743336810, NULL, NULL, 0, 'user Message 8 about lighthouses', '2026-11-23 00:32:50.638953+00', '2026-11-23 00:32:50.638953+00', '\x93c09b00020001013000cd0194010001c433029b09d1b132b1b838b3b82431af04439b21166df8ac31c2a91e8f25c6245a62428e25a6245a62468e25e6245a6281453d0700');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 10, 'delta', NULL, NULL, 9, 9, 346, 519, 'zsplice2', 6768299057751788907, NULL, NULL, 0, 'assistant Message 9 about lighthouses', '2026-11-23 00:32:50.640547+00', '2026-11-23 00:32:50.640547+00', '\x93c09b0002000101cd01c40035010001c40a029b45d01a4b2cda3801');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 11, 'delta', NULL, NULL, 9, 10, 381, 568, 'zsplice2', -8632892903152981854, NULL, NULL, 0, 'user Message 10 about lighthouses', '2026-11-23 00:32:50.642136+00', '2026-11-23 00:32:50.642136+00', '\x93c09b0002000101cd01c40066010001c411029b4dd01a4be2acd90b8f456c71cf0500');
INSERT INTO public.deltas VALUES ('stored', 'long', '/', 12, 'delta', NULL, NULL, 11, 11, 411, 622, 'zsplice2', 4118456690018297778, NULL, NULL, 0, 'assistant Message 11 about lighthouses', '2026-11-23 00:32:50.643654+00', '2026-11-23 00:32:50.643654+00', '\x93c09b0002000101cd022a0036010001c40c029b83cb1e843e6c91cf0d00');
INSERT INTO public.deltas VALUES ('stored', 'branched', '/', 1, 'snapshot', NULL, NULL, NULL, 0, 0, 10, 'zsplice2', -2092080262079905540, NULL, NULL, 0, 'root', '2026-11-23 00:32:50.645199+00', '2026-11-23 00:32:50.645199+00', '\x0092c40470617468c40691a4726f6f74');
INSERT INTO public.deltas VALUES ('stored', 'branched', '/', 2, 'delta', NULL, NULL, 1, 1, 19, 15, 'zsplice2', -273524278017681899, NULL, NULL, 0, 'left', '2026-11-23 00:32:50.648214+00', '2026-11-23 00:32:50.648214+00', '\x93c09300000bc40b029b042697e4a4a6950000');
INSERT INTO public.deltas VALUES ('stored', 'branched', '/', 3, 'delta', NULL, NULL, 1, 1, 20, 16, 'zsplice2', 4288877344409937235, NULL, NULL, 0, 'right', '2026-11-23 00:32:50.664221+00', '2026-11-23 00:32:50.664221+00', '\x93c09300000cc40c029b0426971665a667940000');
INSERT INTO public.deltas VALUES ('stored', 'naïve/ключ/🔑', '/', 1, 'snapshot', NULL, NULL, NULL, 0, 0, 22, 'zsplice2', 512250111599940896, NULL, NULL, 0, 'Unicode 漢 字', '2026-11-23 00:32:50.679722+00', '2026-11-23 00:32:50.679722+00', '\x0092c40474657874c412b1c39c6ec3af636f64652c20e6bca2e5ad97');
INSERT INTO public.deltas VALUES ('stored', 'forked', '/', 1, 'snapshot', NULL, NULL, NULL, 0, 0, 10, 'zsplice2', -2092080262079905540, NULL, NULL, 0, 'root', '2026-11-23 00:32:50.645199+00', '2026-11-23 00:32:50.645199+00', '\x0092c40470617468c40691a4726f6f74');


--
-- Data for Name: embeddings; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: memalchemy_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.memalchemy_version VALUES ('0003');


--
-- Data for Name: store_items; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.store_items VALUES ('~', '/~memalchemy/', 'schema', '{"revision": "0003", "oldest_release": "0.1.0"}', 1, 'none', 0, NULL, '2026-11-23 00:32:50.363017+00', '2026-11-23 00:32:50.363017+00', NULL, '\x2d', NULL, NULL);


--
-- Data for Name: threads; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.threads VALUES ('stored', 'long', '/', 13, 12, 2007183303898936871, 'f3e110d3c5b644a1a39fdda70f7abbbd', 'de5a9eb4f69942c296ebd32c80c7210b', '{"step": 0, "colour": "blue"}', NULL, NULL, '2026-11-23 00:32:50.562649+00', '2026-11-23 00:32:50.643654+00', NULL, NULL);
INSERT INTO public.threads VALUES ('stored', 'branched', '/', 4, 3, 4502313281995071951, 'c11d6615a12744e9afdbf55e7fb805c2', '78d9697de1294710bd499731dd4f84d4', '{}', NULL, NULL, '2026-11-23 00:32:50.645199+00', '2026-11-23 00:32:50.664221+00', NULL, NULL);
INSERT INTO public.threads VALUES ('stored', 'naïve/ключ/🔑', '/', 2, 1, 1946157420663495433, 'first: 1', NULL, '{}', NULL, NULL, '2026-11-23 00:32:50.679722+00', '2026-11-23 00:32:50.679722+00', NULL, NULL);
INSERT INTO public.threads VALUES ('stored', 'deleted', '/', 2, 2, 319133117714713632, NULL, NULL, '{}', NULL, NULL, '2026-11-23 00:32:50.68346+00', '2026-11-23 00:32:50.68346+00', NULL, '2026-11-23 00:32:50.687018+00');
INSERT INTO public.threads VALUES ('stored', 'forked', '/', 2, 1, 556802794903908732, '6652eaf57cb04eb9902f268eb488271a', NULL, '{}', 'branched', 1, '2026-11-23 00:32:50.70667+00', '2026-11-23 00:32:50.70667+00', NULL, NULL);


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
-- Name: ix_store_items_search; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_store_items_search ON public.store_items USING gin ((((to_tsvector('simple'::regconfig, COALESCE(search_text, ''::text)) || to_tsvector('simple'::regconfig, COALESCE(field_terms, ''::text))) || array_to_tsvector(ARRAY[(((chr(31) || (tenant)::text) || chr(31)) || (namespace)::text)]))));


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


